"""What Python users import: one client, whose answers are tables."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from backend.tables import Table
from tests.backend.job_specs import job_spec
from tests.backend.live_server import LiveServer
from trainyard import ApiError, Client, RaceTable, UserError


@pytest.fixture
def client(live: LiveServer) -> Iterator[Client]:
    with Client(live.url) as client:
        yield client


def test_a_race_is_a_table(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job_spec("raced", cluster={"workers": 2})))
    made = client.race(path, ["p3", "parameter-server"], rates=["100Mbit", "1Gbit"], rounds=2, wait=False)
    assert isinstance(made, RaceTable)
    assert [(row["condition"], row["member"]) for row in made] == [
        ("100Mbit", "p3"), ("100Mbit", "parameter-server"), ("1Gbit", "p3"), ("1Gbit", "parameter-server"),
    ]  # fmt: skip
    assert made.race.jobs == 8
    assert made.sentences[0] == "100Mbit: No member has figures yet"
    client.cancel_race(made.id)
    again = client.ranking(made.id)
    assert (again.rows, again.race.state) == (made.rows, "cancelled")
    members = [{"strategy": "p3", "options": {"slice_size": 500}, "name": "small slices"}]
    named = client.race(job_spec("raced"), ["parameter-server"], members=members, wait=False)
    assert named.race.members == ["parameter-server", "small slices"]
    client.cancel_race(named.id)
    with pytest.raises(ApiError, match="p4"):
        client.race(job_spec("raced"), ["p4"], wait=False)
    with pytest.raises(ApiError, match="rounds"):
        client.race(job_spec("raced"), ["p3"], rounds=0, wait=False)


def test_what_a_race_is_given_one_of_needs_no_list(client: Client) -> None:
    made = client.race(job_spec("one"), "p3", rates="1Gbit", workers=2, batches=64, wait=False)
    spec = made.race.spec
    assert (made.race.members, spec.rates, spec.workers, spec.batches) == (["p3"], ("1Gbit",), (2,), (64,))
    joined = client.join_race(made.id, {"strategy": "ring-allreduce"})
    assert joined.members == ["p3", "ring-allreduce"]
    client.cancel_race(made.id)
    alone = client.race(job_spec("one"), members={"strategy": "p3", "name": "it"}, wait=False)
    assert alone.race.members == ["it"]
    client.cancel_race(alone.id)
    job = client.submit(job_spec("alone")).id
    assert [row["job"] for row in client.compare(job)] == ["alone"]


def test_jobs_are_compared_in_a_table(client: Client) -> None:
    first, second = (client.submit(job_spec(name)).id for name in ("first", "<b>second</b>"))
    table = client.compare([first, second])
    assert [row["job"] for row in table] == ["first", "<b>second</b>"]
    assert [(row["baseline"], row["speed_up"]) for row in table] == [("first", 1.0), ("first", None)]
    over, why_not = table.sentences
    equal = "both have the same global batch (strong scaling)."
    assert over == f"The speed-up of <b>second</b> is over first; {equal}"
    assert "throughput: this job has none after the warm-up yet" in why_not
    twins = client.compare([first, client.submit(job_spec("first")).id])
    assert twins[1]["baseline"].startswith("first (01"), "which of the two it is"
    assert "&lt;b&gt;second&lt;/b&gt;" in table._repr_html_()
    assert "<b>" not in table._repr_html_()
    with pytest.raises(UserError, match="nothing to compare"):
        client.compare([])
    with pytest.raises(UserError, match="names a job twice"):
        client.compare([first, second, first[:30]])
    assert client.compare(first, second).rows == table.rows


@pytest.mark.parametrize("missing", ["httpx", "pydantic", "typer"])
def test_what_is_not_installed_is_named_with_the_remedy(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from trainyard import Client"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = ran.stderr.strip().splitlines()[-1]
    remedy = "pip install 'trainyard[server]'"
    assert last == f"ImportError: trainyard needs {missing}, which is not installed: {remedy}"


def test_a_table_is_rows_and_text_and_html() -> None:
    table = Table([{"job": "a & b", "iteration_ms": 12.3456, "rounds": None}], ["It is so."])
    assert (len(table), table.columns, table[0]["job"]) == (1, ("job", "iteration_ms", "rounds"), "a & b")
    assert repr(table).splitlines() == ["It is so.", "job    iteration_ms  rounds", "a & b  12.35         -"]
    assert "<p>It is so.</p>" in table._repr_html_()
    assert "a &amp; b" in table._repr_html_()
    assert repr(Table([])) == ""


def test_without_pandas_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match="`rows`, which holds the same"):
        Table([{"a": 1}]).to_pandas()


def test_with_pandas_it_is_a_frame() -> None:
    """Of which what is not known is no number, so that means and sums leave it out."""
    rows = [{"a": 1.5, "b": "x", "c": True}, {"a": None, "b": "y", "c": False}]
    table = Table(rows)
    frame = table.to_pandas()
    assert list(frame.columns) == ["a", "b", "c"]
    assert (frame["a"].mean(), frame["b"].tolist(), frame["c"].sum()) == (1.5, ["x", "y"], 1)
    assert frame.equals(type(frame)(table)), "pandas reads a table itself"
    assert Table([]).to_pandas().empty
