"""What the documents say is so: the table of strategies, the paths, the commands, the examples."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from backend.cli.main import app
from backend.client import Client as ApiClient
from engine.axes.codec import CODEC
from engine.axes.matrices import Rows
from engine.inputs.build import load_dataset
from engine.models.build import build_model
from engine.plan.documents import load_text
from engine.plan.encoding import encoding
from engine.plan.job import JobSpec
from engine.plan.plan import Plan, Wrapper
from engine.plan.serde import from_plain, to_plain
from engine.simulate.declared import declared
from engine.strategies import STRATEGIES, build_plan
from tests.plans import built, described, job, planned

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = (
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "DECISIONS.md",
    "MEASUREMENTS.md",
    "CHANGELOG.md",
)
NUMBERS = {20: "Twenty", 21: "Twenty-one", 22: "Twenty-two", 23: "Twenty-three", 24: "Twenty-four"}
MADE = ("frontend/node_modules", "frontend/dist")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def code_blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", read(name), re.MULTILINE | re.DOTALL)


def strategies_table() -> str:
    """The table that README must hold."""
    rows = [f"| `{s.name}` | {s.summary} | {s.loses_when} | {s.proof} | {s.source} |" for s in STRATEGIES]
    head = ["| strategy | what it does | loses when | proof | source |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows])


def test_readme_lists_the_strategies_of_the_catalogue() -> None:
    between = re.search(r"<!-- strategies:.*?-->\n(.*?)\n?<!-- /strategies -->", read("README.md"), re.DOTALL)
    assert between, "README has lost the marks around its table of strategies"
    assert between[1] == strategies_table(), f"the table should read:\n{strategies_table()}"


def test_readme_counts_the_strategies_that_are_plans() -> None:
    peers = [
        s.name
        for s in STRATEGIES
        if isinstance(built(s.name, "mlp", 1 if s.name == "single" else 2), Wrapper)
    ]
    assert peers == ["ddp", "fsdp"]
    assert (
        f"{NUMBERS[len(STRATEGIES) - len(peers)]} strategies, most of them published, are such plans"
        in read("README.md")
    )


BY_HAND = {"tests/e2e/page_speed.py", "tests/e2e/live_updates.py"}
"""They need the extras of the tests."""


def test_contributing_lists_every_benchmark() -> None:
    """As `make bench` finds them."""
    patterns = ("engine/benchmarks/[a-z]*.py", "backend/*/benchmark.py", "backend/races/benchmark_itself.py")
    found = {path for pattern in patterns for path in ROOT.glob(pattern)}
    rows = read("CONTRIBUTING.md").partition("| script | question | minutes |")[2].partition("\n\n")[0]
    named = set(re.findall(r"^\| `([\w/]+\.py)`", rows, re.MULTILINE))
    assert {str(path.relative_to(ROOT)) for path in found} == named - BY_HAND


@pytest.mark.parametrize("document", DOCUMENTS)
def test_paths_exist(document: str) -> None:
    """Every path in code style that starts in a top-level folder, and every link to a file."""
    text = read(document)
    tops = "backend|frontend|engine|migrations|tests|docker"
    paths = set(re.findall(rf"`((?:{tops})/[\w./-]*)`", text)) | set(re.findall(r"\]\(([\w./-]+)\)", text))
    missing = [path for path in paths if path not in MADE and not (ROOT / path).exists()]
    assert sorted(missing) == []


def test_files_that_sources_name_exist() -> None:
    """Beside the source that names them, or from the repository or its package on."""
    missing = [
        f"{path.relative_to(ROOT)} names {name}"
        for top in ("engine", "backend")
        for path in sorted((ROOT / top).rglob("*.py"))
        for name in re.findall(r"`([\w/.-]+\.py)`", path.read_text(encoding="utf-8"))
        if not any((folder / name).exists() for folder in (path.parent, ROOT, ROOT / top))
    ]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_make_commands_exist(document: str) -> None:
    targets = set(re.findall(r"^([a-z]+):", read("Makefile"), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z]+)\b", " ".join(re.findall(r"`[^`]+`", read(document))))) <= targets


def test_the_index_of_decisions_names_each_once_and_measurements_are_theirs() -> None:
    text = read("DECISIONS.md")
    index = re.findall(r"^- (\d+)\. (.*?)( ★)?$", text, re.MULTILINE)
    decisions = re.findall(r"^### (\d+)\. (.*)$", text, re.MULTILINE)
    assert [entry[:2] for entry in index] == decisions, "the index has each decision, topic by topic"
    assert sorted(int(number) for number, _ in decisions) == list(range(1, len(decisions) + 1))
    measured = re.findall(r"^## (\d+)\. (.*) \(\d{4}-\d\d-\d\d\)$", read("MEASUREMENTS.md"), re.MULTILINE)
    starred = sorted((entry[:2] for entry in index if entry[2]), key=lambda entry: int(entry[0]))
    assert measured == starred, "a star in the index stands for an entry in MEASUREMENTS.md"


def test_readmes_figures_are_those_of_their_results() -> None:
    """Each figure of README's table, and what stands beside it in parentheses (`against one without: 0.9`), stands as
    it is written there in a table of the result that it names."""
    rows = re.findall(
        r"^\| (.*) \| (\d[\d.]*) .*\| \[.*\]\((.*/results/.*\.md)\) \|$", read("README.md"), re.MULTILINE
    )
    assert len(rows) == read("README.md").count("/results/"), (
        "a figure is given as: | what | figure | [name](result) |"
    )
    for what, figure, result in rows:
        cells = re.split(r"[|()\s]+", " ".join(re.findall(r"^\|.*$", read(result), re.MULTILINE)))
        for said in (figure, *re.findall(r"without: ([\d.]+)\)", what)):
            assert said in cells, f"{result} has no {said}"


@pytest.mark.parametrize("block", range(2))
def test_readmes_jobs_are_valid(block: int) -> None:
    spec = from_plain(JobSpec, load_text(code_blocks("README.md", "yaml")[block], "README.md"))
    assert spec.cluster.workers == 2


def test_readmes_overrides_apply() -> None:
    blocks = [text for text in code_blocks("README.md", "yaml") if "overrides:" in text]
    vgg = {"model": {"name": "vgg19"}, "data": {"name": "synthetic"}, "cluster": {"workers": 2}}
    found = []
    for block in blocks:
        whole = to_plain(job()) | vgg | load_text(block, "README.md")
        plan = build_plan(from_plain(JobSpec, whole), described("vgg19"))
        assert isinstance(plan, Plan)
        found.append({layer.layer: layer for layer in plan.layers})
    choices, codecs = found
    assert (choices["fc6"].exchange, choices["conv1_1"].codec) == ("factors", "fp16")
    assert (codecs["fc6"].codec, codecs["conv1_1"].codec) == ("top-k", "int8")
    assert codecs["fc6"].codec_options == {"ratio": 0.02, "value_bits": 32}


def test_readmes_codecs_have_the_bytes_that_it_says() -> None:
    rows = re.findall(
        r"^\| (`[^|]*`) \| (\d[\d.]*)(?: at most)? \| [^|]* \|$", read("README.md"), re.MULTILINE
    )
    said = {name: part for names, part in rows for name in re.findall(r"`([^`]*)`", names)}
    count = 10**6
    weight = [Rows(count, 1000)]
    sizes = {
        name: encoding(name).bytes("float32", count, weight) for name in CODEC.names if CODEC[name].available
    }
    assert said == {name: f"{size / (4 * count):.2g}" for name, size in sizes.items()}


def test_where_a_server_updates_a_step_moves_what_readme_says() -> None:
    """Of an uncompressed step's bytes: three quarters with fp16, never less than half unless answers are encoded."""

    def moved(**options: str) -> int:
        plan = planned("parameter-server", "vgg19", 4, **options)
        return sum(transfer.bytes for transfer in declared(plan, described("vgg19"), 4) if transfer.wire)

    plain = moved()
    assert moved(codec="fp16") == plain * 3 // 4
    assert moved(codec="fp16", answers="fp16") == moved(codec="fp16", update="worker") == plain // 2
    # dgc has a momentum; with signsgd workers update.
    served = [codec.name for codec in CODEC if codec.available and codec.name not in ("dgc", "signsgd")]
    assert all(moved(codec=name) >= plain // 2 for name in served)
    said = " ".join(read("README.md").split())
    assert "with `fp16` a step then moves three quarters of an uncompressed step's bytes" in said
    assert "and with no codec less than half" in said


def test_readmes_profile_command_works(tmp_path: Path) -> None:
    (command,) = re.findall(r"`(trainyard profile [^`]*)`", read("README.md"))
    out = tmp_path / "profile.json"
    arguments = shlex.split(command.replace("profile.json", str(out)))[1:]
    ran = CliRunner().invoke(app, [*arguments, "--steps", "1"])
    assert (ran.exit_code, out.exists()) == (0, True), ran.output


def test_readmes_own_model_works(tmp_path: Path) -> None:
    (mine,) = [block for block in code_blocks("README.md", "python") if "def build(" in block]
    (tmp_path / "mine.py").write_text(mine, encoding="utf-8")
    text = code_blocks("README.md", "yaml")[1].replace("/home/me/nets", str(tmp_path))
    job = from_plain(JobSpec, load_text(text, "README.md"))
    data = load_dataset(job.data)
    inputs, targets = data.train.batch(np.arange(5))
    assert build_model(job.model)(inputs).shape == (5, 10)
    assert len(data.train) == 384
    assert targets.shape == (5,)


def test_documents_import_one_module_of_ours() -> None:
    """Users import `trainyard`, and nobody outside has to know what is behind it."""
    ours = re.compile(r"^\s*(?:from|import) +(engine|backend)\b", re.MULTILINE)
    client = re.compile(r"^from trainyard import Client$", re.MULTILINE)
    blocks = [block for name in ("README.md", "ARCHITECTURE.md") for block in code_blocks(name, "python")]
    assert blocks
    assert not [found[0] for block in blocks for found in ours.finditer(block)]
    assert any(client.search(block) for block in blocks), "README shows how"
    import trainyard  # noqa: PLC0415

    examples = [sys.modules[kind.__module__].__doc__ or "" for kind in (trainyard.Client, ApiClient)]
    assert all("from trainyard import Client" in example for example in examples)
    assert not [example for example in examples if ours.search(example)]
    assert '"trainyard"' in read("pyproject.toml").partition("py-modules")[2].partition("\n")[0], (
        "in the wheel"
    )
