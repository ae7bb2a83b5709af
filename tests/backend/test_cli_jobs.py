"""The terminal's commands, through a real server."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from backend.called import SHORT
from backend.cli.main import app
from engine.lab import permitted
from tests.backend.job_specs import job_spec
from tests.backend.live_server import LiveServer
from tests.engine.test_plan_documents import BOMBS


@pytest.fixture(autouse=True)
def _server(live: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_URL", live.url)


def trainyard(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=given)


def succeeds(*arguments: str) -> str:
    found = trainyard(*arguments)
    assert found.exit_code == 0, found.output
    return found.stdout


def shows(text: str, job_id: str) -> bool:
    """Whether a line of a table begins with an id that is this one, as short as it may be."""
    words = [line.split()[0] for line in text.splitlines() if line.strip()]
    return any(job_id.startswith(word) for word in words if len(word) >= SHORT)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job_spec("from a terminal")))
    return path


def test_the_terminal_says_where_there_is_no_staleness(file: Path) -> None:
    for strategy, words in (
        ("p3", "wait for one another in every step"),
        ("async-sgd", "No contribution was applied"),
    ):
        job_id = succeeds("submit", str(file), "--set", f"strategy.name={strategy}").strip()
        assert words in succeeds("staleness", job_id)
        assert json.loads(succeeds("staleness", job_id, "--json"))["drifts"] is (strategy == "async-sgd")
        assert ("staleness" in succeeds("show", job_id)) is (strategy == "async-sgd")
        succeeds("cancel", job_id)


def test_a_job_from_its_submission_to_its_end(file: Path) -> None:
    job_id = succeeds("submit", str(file)).strip()
    assert shows(succeeds("list", "--state", "queued"), job_id)
    shown = succeeds("show", job_id)
    assert "from a terminal" in shown
    assert "slices of 50000" in shown
    assert "cancelled" in succeeds("cancel", job_id)
    assert not shows(succeeds("list", "--state", "queued"), job_id)
    assert json.loads(succeeds("show", job_id, "--json"))["state"] == "cancelled"
    assert succeeds("logs", job_id) == ""
    assert succeeds("logs", job_id, "--follow") == ""


def test_a_job_is_cloned_with_changes_and_deleted(file: Path) -> None:
    job_id = succeeds("submit", str(file)).strip()
    clone = succeeds("clone", job_id, "--set", "name=wider", "--set", "strategy.name=ring-allreduce").strip()
    spec = json.loads(succeeds("show", clone, "--json"))["spec"]
    assert (spec["name"], spec["strategy"]["name"], spec["data"]) == ("wider", "ring-allreduce", {
        "name": "digits", "entrypoint": None, "directory": None, "options": {},
    })  # fmt: skip
    refused = trainyard("delete", "--yes", clone)
    assert refused.exit_code == 2
    assert "Cancel it first" in refused.stderr
    succeeds("cancel", clone)
    succeeds("delete", "--yes", clone)
    assert not shows(succeeds("list"), clone)
    assert trainyard("show", clone).exit_code == 2
    assert trainyard("clone", job_id, "--set", "nonsense").exit_code == 2
    assert trainyard("clone", job_id, "--set", "name=a", "--set", "name.b=1").exit_code == 2


def test_a_plan_is_shown_without_submitting(file: Path) -> None:
    before = succeeds("list", "--json")
    assert "p3:" in succeeds("plan", str(file))
    assert json.loads(succeeds("plan", str(file), "--json"))["strategy"] == "p3"
    override = "overrides=[{kind: linear, least_parameters: 1000, exchange: ring-allreduce}]"
    composed = succeeds("plan", str(file), "--set", override)
    which = "linear layers of at least 1,000 parameters [1 (Linear), 3 (Linear)]"
    assert f"overrides.0: {which}: exchange ring-allreduce" in composed
    assert succeeds("list", "--json") == before


def test_jobs_are_compared(file: Path) -> None:
    first = succeeds("submit", str(file)).strip()
    second = succeeds("submit", str(file), "--baseline", first).strip()
    table = succeeds("compare", first, second)
    assert "speed-up" in table
    assert "throughput: this job has none after the warm-up yet" in table


def test_a_rehearsal_is_called_one(file: Path, tmp_path: Path) -> None:
    rehearsal = tmp_path / "rehearsal.yaml"
    rehearsal.write_text(yaml.safe_dump(job_spec("rehearsal", fidelity="rehearse")))
    trained, rehearsed = (succeeds("submit", str(one)).strip() for one in (file, rehearsal))
    label = "rehearsed: compute of P4000 derived from FLOPs at 60 %"
    assert "mlp (rehearsed)" in succeeds("list", "--text", "rehearsal")
    assert label in succeeds("show", rehearsed)
    assert label in succeeds("compare", trained, rehearsed)
    assert "rehearsed" not in succeeds("compare", trained, trained)


def test_catalogues_are_listed() -> None:
    listed = succeeds("strategies")
    assert "parameter-server" in listed
    assert "Loses when" in listed
    assert json.loads(succeeds("schema"))["title"] == "JobSpec"
    assert json.loads(succeeds("openapi"))["info"]["title"] == "Trainyard"


def test_directories_are_seen_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from torch import nn\ndef build():\n    return nn.Flatten()\n")
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job_spec(model={"entrypoint": "mine:built", "directory": "."})))
    refused = trainyard("plan", str(path))
    assert refused.exit_code == 2
    assert "built" in refused.stderr


def test_bad_specifications_print_value_rule_and_remedy(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job_spec(cluster={"workers": 0})))
    for command in ("submit", "plan"):
        refused = trainyard(command, str(path))
        assert refused.exit_code == 2
        assert refused.stderr.splitlines() == [
            "error: cluster.workers = 0",
            "  rule:   a job needs at least one worker",
            "  remedy: Use 1 or more",
        ]
        assert refused.stdout == ""


@pytest.mark.parametrize("text", ["name: [", "- a list", None])
def test_files_that_hold_no_job(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "job.yaml"
    if text is not None:
        path.write_text(text)
    refused = trainyard("submit", str(path))
    assert refused.exit_code == 2
    assert str(path) in refused.stderr
    assert "remedy" in refused.stderr


@pytest.mark.parametrize("bomb", ["merges", "many values", "size"])
def test_a_file_or_a_setting_beyond_a_limit_is_refused(tmp_path: Path, file: Path, bomb: str) -> None:
    text, rule = BOMBS[bomb]
    path = tmp_path / "bomb.yaml"
    path.write_text(text)
    for asked in ((str(path),), (str(file), "--set", f"name={text}")):
        refused = trainyard("submit", *asked)
        assert refused.exit_code == 2
        assert re.search(rule, refused.stderr)
        assert "remedy" in refused.stderr


def test_who_cannot_race_is_said_at_once_with_the_flag_that_lets_him(file: Path) -> None:
    arguments = (
        "race",
        str(file),
        "--strategies",
        "p3,ddp",
        "--workers",
        "1,2",
        "--rates",
        "1Gbit,2Gbit",
        "--no-wait",
    )
    begun = trainyard(*arguments)
    assert begun.exit_code == 0, begun.output
    succeeds("races", begun.stdout.strip(), "--cancel")
    *outs, second = begun.stderr.splitlines()
    assert [line.partition(": the native")[0] for line in outs] == [
        f"ddp takes no part: network.rate = '{rate} Gbit/s'" for rate in (1, 2)
    ]
    in_lab = trainyard(*arguments, "--lab", "--json")
    if (missing := permitted()) is not None:
        assert second == f"--lab (network.hosts) would let them race, but not here: {missing}"
        assert (in_lab.exit_code, "network.hosts = 2" in in_lab.stderr) == (2, True)
        return
    assert second.startswith("--lab lets them race here")
    race = json.loads(in_lab.stdout)
    succeeds("races", race["id"], "--cancel")
    assert race["spec"]["job"]["network"]["hosts"] == 2, "a host for each worker of the largest"
    assert [one["out"] for ranking in race["rankings"] for one in ranking["standings"]] == [None] * 8
    assert in_lab.stderr == ""


@pytest.mark.parametrize("command", ["show", "logs", "cancel", "trace"])
def test_jobs_that_are_not_there(command: str) -> None:
    refused = trainyard(command, "nobody")
    assert refused.exit_code == 2
    assert "no such job" in refused.stderr


def test_a_server_that_is_not_there() -> None:
    refused = trainyard("list", "--url", "http://127.0.0.1:1")
    assert refused.exit_code == 1
    assert "trainyard serve" in refused.stderr


def test_a_template_is_changed_as_it_is_submitted(file: Path) -> None:
    changes = [
        "--set",
        "training.steps=7",
        "--set",
        "strategy={name: ring-allreduce}",
        "--set",
        "network.rate=1Gbit",
    ]
    assert "ring-allreduce" in succeeds("plan", str(file), *changes)
    spec = json.loads(succeeds("show", succeeds("submit", str(file), *changes).strip(), "--json"))["spec"]
    assert spec["training"]["steps"] == 7
    assert spec["training"]["global_batch"] == 32
    assert spec["strategy"]["name"] == "ring-allreduce"
    assert spec["network"]["rate"] == "1Gbit"
    for wrong, said in (
        ("training.steps", "must read"),
        ("name.first=x", "has no fields"),
        ("overrides.codec=fp16", "Name one, e.g. overrides.0"),
        ("overrides.0.layers.0=fc", "is '3', which has no fields"),
        ("overrides.2.codec=fp16", "overrides has places 0 to 0"),
        ("overrides.99999999999999999999.codec=fp16", "overrides.1 adds an entry"),
        ("a..b=1", "must read"),
    ):
        refused = trainyard("submit", str(file), "--set", "overrides=[{layers: '3'}]", "--set", wrong)
        assert refused.exit_code == 2
        assert said in refused.stderr
    refused = trainyard("submit", str(file), "--set", "training.step=7")
    assert refused.exit_code == 2
    assert "error: training.step = 7" in refused.stderr
    assert "Did you mean 'steps'? Known: clip_norm, " in refused.stderr


def test_a_place_in_a_list_is_changed(file: Path) -> None:
    """In a template, and in a job that is cloned: its other entries stay."""
    first = ("--set", "overrides.0.layers='3'", "--set", "overrides.0.codec=fp16")
    shown = succeeds("plan", str(file), *first, "--set", "overrides.1={layers: '5', rank: fifo}")
    assert "overrides.0: layers named 3 [3 (Linear)]: codec fp16" in shown
    assert "overrides.1: layers named 5 [5 (Linear)]: rank fifo" in shown
    job_id = succeeds("submit", str(file), *first, "--set", "overrides.1.rank=fifo").strip()
    clone = succeeds("clone", job_id, "--set", "overrides.0.layers='1'", "--set", "cluster.workers=1").strip()
    spec = json.loads(succeeds("show", clone, "--json"))["spec"]
    assert spec["cluster"]["workers"] == 1
    assert [(one["layers"], one["codec"], one["rank"]) for one in spec["overrides"]] == [
        ("1", "fp16", None), ("*", None, "fifo"),
    ]  # fmt: skip


def test_every_refusal_of_a_plan_is_printed(file: Path) -> None:
    wrong = ["overrides.0={exchange: native, rank: priority}", "overrides.1={layers: '3', codec: fp16}"]
    refused = trainyard("plan", str(file), *(part for text in wrong for part in ("--set", text)))
    assert refused.exit_code == 2
    lines = refused.stderr.splitlines()
    assert lines[0] == "error: layers.1.order.rank = 'priority'"
    assert lines[1] == "  also:   layers.3.order.rank, layers.5.order.rank"
    assert [line for line in lines if line.startswith("error")][1:] == ["error: layers.3.codec = 'fp16'"]
    assert sum(line.startswith("  remedy:") for line in lines) == 2


def test_top_shows_what_waits(file: Path) -> None:
    job_id = succeeds("submit", str(file), "--set", "name=seen from above").strip()
    shown = succeeds("top", "--once")
    (row,) = [line for line in shown.splitlines() if shows(line, job_id)]
    assert "seen from above" in row
    assert "queued" in row
    assert "0/20" in row
    assert "0 running" in shown
    succeeds("cancel", job_id)
    assert not shows(succeeds("top", "--once"), job_id)


def test_a_trace_is_a_file_that_is_whole(file: Path, tmp_path: Path) -> None:
    job_id = succeeds("submit", str(file)).strip()
    out = tmp_path / "trace.json"
    succeeds("trace", job_id, "-o", str(out))
    assert json.loads(out.read_text())["otherData"]["job"] == job_id
    assert json.loads(succeeds("trace", job_id))["otherData"]["job"] == job_id
    assert trainyard("trace", "nobody", "-o", str(tmp_path / "no.json")).exit_code == 2
    refused = trainyard("trace", job_id, "-o", str(tmp_path / "nowhere" / "trace.json"))
    assert refused.exit_code == 2
    assert "cannot be written" in refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job.yaml", "trace.json"]


def test_a_model_that_there_is_not_yet_is_not_exported(file: Path, tmp_path: Path) -> None:
    job_id = succeeds("submit", str(file)).strip()
    refused = trainyard("export", job_id, "--out", str(tmp_path / "there"))
    assert refused.exit_code == 2
    assert "there is no model of it yet" in refused.stderr
    assert list((tmp_path / "there").iterdir()) == []
    refused = trainyard("export", job_id, "--out", str(tmp_path / "there"), "--optimizer")
    assert refused.exit_code == 2
    assert "the job has no checkpoint" in refused.stderr


def test_any_beginning_that_only_one_job_has_is_its_id(file: Path) -> None:
    first = succeeds("submit", str(file), "--set", "name=first of two").strip()
    second = succeeds("submit", str(file), "--set", "name=second of two").strip()
    lines = [line.split()[0] for line in succeeds("list", "--text", "of two").splitlines()[1:]]
    assert [second.startswith(lines[0]), first.startswith(lines[1])] == [True, True]
    assert len(lines[0]) < len(second), "as short as it may be"
    apart = next(at for at, pair in enumerate(zip(first, second, strict=True)) if pair[0] != pair[1])
    assert "first of two" in succeeds("show", lines[1])
    ambiguous = trainyard("show", first[:apart])
    assert ambiguous.exit_code == 2
    assert "first of two" in ambiguous.stderr
    assert "second of two" in ambiguous.stderr
    assert "Give more of its characters" in ambiguous.stderr
    assert "speed-up" in succeeds("compare", lines[1], second)
    for command in ("cancel", "spec", "logs", "tag", "note", "trace"):
        succeeds(command, lines[0])
    succeeds("baseline", lines[1], lines[0])
    succeeds("delete", "--yes", lines[0])
    assert trainyard("show", second).exit_code == 2
    assert trainyard("show", "ffffffff").exit_code == 2


def test_an_id_in_capital_letters_is_found_and_a_piece_of_one_is_refused(file: Path) -> None:
    """`0` is in the name of a job whose id begins with it, as all do now, and says nothing of which one is meant."""
    job_id = succeeds("submit", str(file), "--set", "name=piece of 0").strip()
    assert "piece of 0" in succeeds("show", job_id.upper())
    for text in ("", "0", job_id[:3]):
        refused = trainyard("cancel", text)
        assert (refused.exit_code, "fewer than 4 characters name no job" in refused.stderr) == (2, True)
        refused = trainyard("races", text, "--delete")
        assert (refused.exit_code, "`trainyard races` shows ids" in refused.stderr) == (2, True)
    assert json.loads(succeeds("show", job_id, "--json"))["state"] == "queued"
    race_id = json.loads(succeeds("race", str(file), "--no-wait", "--json"))["id"]
    assert json.loads(succeeds("races", race_id[:20].upper(), "--cancel", "--json"))["id"] == race_id
    succeeds("cancel", job_id)


def test_a_clone_under_another_strategy_drops_what_that_does_not_have(file: Path) -> None:
    job_id = succeeds("submit", str(file), "--set", "strategy.options={slice_size: 1000}").strip()
    done = trainyard("clone", job_id, "--set", "strategy.name=ring-allreduce-overlap")
    assert done.exit_code == 0, done.output
    assert done.stderr.splitlines()[0] == (
        "left out: strategy.options.slice_size = 1000, which ring-allreduce-overlap does not have"
    )
    strategy = json.loads(succeeds("show", done.stdout.strip(), "--json"))["spec"]["strategy"]
    assert strategy["name"] == "ring-allreduce-overlap"
    assert "slice_size" not in strategy["options"]
    same = trainyard("clone", job_id, "--set", "training.steps=7")
    assert same.stderr == ""
    assert json.loads(succeeds("show", same.stdout.strip(), "--json"))["spec"]["strategy"]["options"] == {
        "slice_size": 1000
    }
    mistyped = trainyard("clone", job_id, "--set", "strategy.name=ring")
    assert mistyped.exit_code == 2
    assert "strategy" in mistyped.stderr


def test_lists_are_filtered_by_time_and_kind(file: Path) -> None:
    job_id = succeeds("submit", str(file)).strip()
    assert shows(succeeds("list", "--since", "2020-01-01", "--no-rehearsed", "--dataset", "digits"), job_id)
    assert not shows(succeeds("list", "--since", "2999-01-01"), job_id)
    assert not shows(succeeds("list", "--rehearsed"), job_id)
