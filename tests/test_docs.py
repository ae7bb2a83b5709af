"""What the documents say is so: the table of strategies, the paths, the commands, the examples."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from backend.cli.main import app
from backend.client import Client as ApiClient
from engine.axes.codec import CODEC
from engine.axes.matrices import Rows
from engine.inputs.build import load_dataset
from engine.models.build import build_model
from engine.plan.description import ModelDescription
from engine.plan.documents import load_text
from engine.plan.encoding import encoding
from engine.plan.job import JobSpec
from engine.plan.plan import Plan, Wrapper
from engine.plan.serde import from_plain, to_plain
from engine.simulate.declared import declared
from engine.strategies import STRATEGIES, build_plan
from tests.plans import built, choose, described, job, planned

ROOT = Path(__file__).resolve().parent.parent
GUIDES = tuple(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))
DOCUMENTS = (
    "README.md",
    *GUIDES,
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "DECISIONS.md",
    "MEASUREMENTS.md",
    "CHANGELOG.md",
)
NUMBERS = {20: "Twenty", 21: "Twenty-one", 22: "Twenty-two", 23: "Twenty-three", 24: "Twenty-four"}
MADE = ("frontend/node_modules", "frontend/dist")
WIDEST = 120
WRAPPED = ("README.md", *GUIDES, "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
"""The documents whose lines are at most so wide."""


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def code_blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", read(name), re.MULTILINE | re.DOTALL)


YAML = [(name, index) for name in DOCUMENTS for index in range(len(code_blocks(name, "yaml")))]


def strategies_table() -> str:
    """The table that docs/strategies.md must hold."""
    rows = [f"| `{s.name}` | {s.summary} | {s.loses_when} | {s.proof} | {s.source} |" for s in STRATEGIES]
    head = ["| strategy | what it does | loses when | proof | source |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows])


def test_the_guide_lists_the_strategies_of_the_catalogue() -> None:
    guide = read("docs/strategies.md")
    between = re.search(r"<!-- strategies:.*?-->\n(.*?)\n?<!-- /strategies -->", guide, re.DOTALL)
    assert between, "docs/strategies.md has lost the marks around its table of strategies"
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
    tops = "backend|docs|frontend|engine|migrations|tests|docker"
    paths = {ROOT / path for path in re.findall(rf"`((?:{tops})/[\w./-]*)`", text) if path not in MADE}
    links = {(ROOT / document).parent / link for link in re.findall(r"\]\(([\w./-]+)(?:#[\w-]*)?\)", text)}
    assert sorted(str(path) for path in paths | links if not path.exists()) == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_to_headings_lead_to_one(document: str) -> None:
    for target, heading in re.findall(r"\]\(([\w./-]*)#([\w-]+)\)", read(document)):
        there = ((ROOT / document).parent / target if target else ROOT / document).read_text(encoding="utf-8")
        titles = re.findall(r"^#+ (.*)$", there, re.MULTILINE)
        assert heading in {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


def test_readme_links_to_every_guide() -> None:
    rows = re.findall(r"^\| \[.*\]\((docs/.*\.md)\) \|", read("README.md"), re.MULTILINE)
    assert sorted(rows) == list(GUIDES)


@pytest.mark.parametrize("document", WRAPPED)
def test_lines_are_not_wide(document: str) -> None:
    """Tables and pictures are left out: their lines cannot be broken."""
    wide = [
        line
        for line in read(document).splitlines()
        if len(line) > WIDEST and not line.startswith(("|", "!["))
    ]
    assert wide == []


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


@pytest.mark.parametrize(("document", "workers"), [("README.md", 2), ("docs/your-model.md", 2)])
def test_whole_jobs_are_valid(document: str, workers: int) -> None:
    (block,) = code_blocks(document, "yaml")
    spec = from_plain(JobSpec, load_text(block, document))
    assert spec.cluster.workers == workers


def example(document: str, block: int) -> tuple[JobSpec, ModelDescription]:
    """The job of a document's YAML, which may be a part of a job: the rest is that of `tests.plans`."""
    part = load_text(code_blocks(document, "yaml")[block], document)
    assert isinstance(part, dict)
    name = part.get("model", {}).get("name", "mlp")  # of a model of one's own, any stands for it
    base = to_plain(job(workers=2)) | {"data": {"name": "synthetic"}, "strategy": {"name": "p3"}}
    return from_plain(JobSpec, base | {"model": {"name": name}} | part), described(name)


@pytest.mark.parametrize(("document", "block"), YAML)
def test_examples_are_planned(document: str, block: int) -> None:
    spec, model = example(document, block)
    assert isinstance(build_plan(spec, model, choose=choose), Plan)


def test_the_guides_overrides_apply() -> None:
    found = []
    for document, block in (
        ("docs/plans.md", 0),
        ("docs/codecs.md", 0),
        ("docs/memory.md", 0),
        ("docs/memory.md", 1),
    ):
        plan = build_plan(*example(document, block))
        assert isinstance(plan, Plan)
        found.append({layer.layer: layer for layer in plan.layers})
    choices, codecs, less, pieces = found
    assert (choices["fc6"].exchange, choices["conv1_1"].codec) == ("factors", "fp16")
    assert (codecs["fc6"].codec, codecs["conv1_1"].codec) == ("top-k", "int8")
    assert codecs["fc6"].codec_options == {"ratio": 0.02, "value_bits": 32}
    assert {layer.activations for name, layer in less.items() if name.startswith("stage4")} == {"swap"}
    assert {layer.activations for name, layer in less.items() if not name.startswith("stage4")} == {
        "recompute"
    }
    assert "through-time" in {layer.activations for layer in pieces.values()}


def test_codecs_have_the_bytes_that_their_guide_says() -> None:
    guide = read("docs/codecs.md")
    rows = re.findall(r"^\| (`[^|]*`) \| (\d[\d.]*)(?: at most)? \| [^|]* \|$", guide, re.MULTILINE)
    said = {name: part for names, part in rows for name in re.findall(r"`([^`]*)`", names)}
    count = 10**6
    weight = [Rows(count, 1000)]
    sizes = {
        name: encoding(name).bytes("float32", count, weight) for name in CODEC.names if CODEC[name].available
    }
    assert said == {name: f"{size / (4 * count):.2g}" for name, size in sizes.items()}


def test_where_a_server_updates_a_step_moves_what_the_guide_says() -> None:
    """Of an uncompressed step's bytes: three quarters with fp16, never less than half unless answers are encoded."""

    def moved(**options: str) -> int:
        plan = planned("parameter-server", "vgg19", 4, **options)
        return sum(transfer.bytes for transfer in declared(plan, described("vgg19"), 4) if transfer.wire)

    plain = moved()
    assert moved(codec="fp16") == plain * 3 // 4
    assert moved(codec="fp16", answers="fp16") == moved(codec="fp16", update="worker") == plain // 2
    # dgc has a momentum; with signsgd and powersgd workers update.
    others = ("dgc", "signsgd", "powersgd")
    served = [codec.name for codec in CODEC if codec.available and codec.name not in others]
    assert all(moved(codec=name) >= plain // 2 for name in served)
    assert moved(codec="powersgd") < plain // 10
    said = " ".join(read("docs/codecs.md").split())
    assert "with `fp16` a step then moves three quarters of an uncompressed step's bytes" in said
    assert "and with no codec less than half" in said


@pytest.mark.parametrize("document", WRAPPED)
def test_commands_and_their_options_exist(document: str) -> None:
    """Every `trainyard COMMAND --option`, in blocks and in sentences."""
    text = read(document)
    lines = [line for block in code_blocks(document, "sh") for line in block.splitlines()]
    lines += re.findall(r"`([^`\n]*)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    commands = get_command(app).commands  # type: ignore[attr-defined]
    for line in lines:
        called = re.search(r"\btrainyard ([a-z][a-z-]*)(.*)", line)
        if called:
            command, words = commands[called[1]], called[2].split()
            if words and hasattr(command, "commands"):  # `trainyard tokens new`
                command = command.commands[words[0]]
            known = {
                name for parameter in command.params for name in parameter.opts + parameter.secondary_opts
            }
            asked = set(re.findall(r"(?<=\s)--[a-z-]+", called[2].partition("#")[0].partition(";")[0]))
            assert asked <= known | {"--help"}, line


@pytest.mark.parametrize("document", WRAPPED)
def test_modules_that_are_run_exist(document: str) -> None:
    modules = re.findall(r"`python -m ([\w.]+)", read(document))
    assert not [name for name in modules if importlib.util.find_spec(name) is None]


def test_the_profile_command_works(tmp_path: Path) -> None:
    text = " ".join(read("docs/networks.md").split())
    (command,) = re.findall(r"`(trainyard profile [^`]*)`", text)
    out = tmp_path / "profile.json"
    arguments = shlex.split(command.replace("profile.json", str(out)))[1:]
    ran = CliRunner().invoke(app, [*arguments, "--steps", "1"])
    assert (ran.exit_code, out.exists()) == (0, True), ran.output


def test_the_guides_own_model_works(tmp_path: Path) -> None:
    (mine,) = code_blocks("docs/your-model.md", "python")
    (tmp_path / "mine.py").write_text(mine, encoding="utf-8")
    text = code_blocks("docs/your-model.md", "yaml")[0].replace("/home/me/nets", str(tmp_path))
    job = from_plain(JobSpec, load_text(text, "docs/your-model.md"))
    data = load_dataset(job.data)
    inputs, targets = data.train.batch(np.arange(5))
    assert build_model(job.model)(inputs).shape == (5, 10)
    assert len(data.train) == 384
    assert targets.shape == (5,)


def test_documents_import_one_module_of_ours() -> None:
    """Users import `trainyard`, and nobody outside has to know what is behind it."""
    ours = re.compile(r"^\s*(?:from|import) +(engine|backend)\b", re.MULTILINE)
    client = re.compile(r"^from trainyard import Client$", re.MULTILINE)
    blocks = [block for name in DOCUMENTS for block in code_blocks(name, "python")]
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
