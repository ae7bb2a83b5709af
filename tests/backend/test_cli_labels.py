"""Commands about what people say of jobs, in which order lists are, and what they take along."""

from __future__ import annotations

import json
import sqlite3
import unicodedata
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from backend.cli.main import app
from backend.client import Client
from engine.plan.documents import load_object
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain
from tests.backend.job_specs import job_spec
from tests.backend.live_server import LiveServer


@pytest.fixture(autouse=True)
def _server(live: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_URL", live.url)


@pytest.fixture
def client(live: LiveServer) -> Client:
    return Client(live.url)


def trainyard(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def succeeds(*arguments: str) -> str:
    found = trainyard(*arguments)
    assert found.exit_code == 0, found.output
    return found.stdout


def test_jobs_are_tagged_and_noted_in_a_terminal(client: Client) -> None:
    job = client.submit(job_spec("said of"))
    assert succeeds("tag", job.id).strip() == "no tags"
    assert succeeds("tag", job.id, "wide", "nightly").strip() == "nightly, wide"
    assert succeeds("tag", job.id, "new", "--remove", "wide").strip() == "new, nightly"
    assert succeeds("note", job.id).strip() == "no note"
    assert succeeds("note", job.id, "looks good").strip() == "looks good"
    shown = succeeds("show", job.id)
    assert "new, nightly" in shown
    assert "looks good" in shown
    assert "said of" in succeeds("list", "--tag", "nightly")
    assert "said of" not in succeeds("list", "--tag", "wide")
    succeeds("note", job.id, "--remove")
    assert client.job(job.id).note is None
    refused = trainyard("tag", job.id, "a,b")
    assert refused.exit_code == 2
    assert "comma" in refused.stderr


def test_a_list_is_sorted_as_it_is_asked_for(client: Client) -> None:
    for name, priority in (("ranked b", 1), ("ranked a", 0), ("ranked c", 2)):
        client.submit(job_spec(name, priority=priority))

    def names(*sort: str) -> list[str]:
        listed = succeeds("list", "--text", "ranked", "--json", *sort)
        return [json.loads(line)["name"] for line in listed.splitlines()]

    assert names("--sort", "name") == ["ranked a", "ranked b", "ranked c"]
    assert names("--sort", "-priority") == ["ranked c", "ranked b", "ranked a"]
    assert [job.name for job in client.jobs(text="ranked", sort="priority")] == [
        "ranked a",
        "ranked b",
        "ranked c",
    ]
    refused = trainyard("list", "--sort", "moons")
    assert refused.exit_code == 2
    assert "samples_per_s" in refused.stderr
    (group,) = client.job_groups("model", text="ranked").items
    assert (group.name, group.jobs, group.active) == ("mlp", 3, 3)


def test_a_specification_is_a_file_that_can_be_submitted_again(client: Client, tmp_path: Path) -> None:
    job = client.submit(job_spec("written down"))
    short = succeeds("spec", job.id)
    assert from_plain(JobSpec, load_object(short, "text")) == job.spec
    assert "priority" not in short
    assert json.loads(succeeds("spec", job.id, "--all", "--json"))["priority"] == 0
    file = tmp_path / "again.yaml"
    file.write_text(short)
    assert client.job(succeeds("submit", str(file)).strip()).spec == job.spec


def test_a_races_report_is_printed_and_the_queue_read(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job_spec("told")))
    race = succeeds("race", str(file), "--strategies", "p3,parameter-server", "--no-wait").split()[0]
    page = succeeds("race-report", race)
    assert page.startswith("<!doctype html>")
    assert "No member has figures yet" in page
    waiting = {one.job_name for one in client.queue(limit=1_000).items}
    assert {"said of", "written down"} <= waiting
    assert trainyard("race-report", "nobody").exit_code == 2


def test_nothing_that_people_say_of_a_job_drives_the_terminal(live: LiveServer, client: Client) -> None:
    """Such names are refused now, and older servers have stored them."""
    evil = "red\x1b]0;title\x07 \N{RIGHT-TO-LEFT OVERRIDE}txt\x9b2J\nnext"
    job = client.submit(job_spec("name"))
    client.note(job.id, evil)
    race = client.start_race(
        {"name": "name", "job": job_spec("raced"), "members": [{"strategy": "p3", "name": "member"}]}
    )
    with closing(sqlite3.connect(live.data_dir / "trainyard.db", timeout=30)) as database, database:
        for table, id_ in (("jobs", job.id), ("races", race.id)):
            stored = f"UPDATE {table} SET name = :evil, spec = json_set(spec, '$.name', :evil) WHERE id = :id"
            database.execute(stored, {"evil": evil, "id": id_})
        database.execute("UPDATE jobs SET revision = revision + 1 WHERE id = ?", (job.id,))
        member = "UPDATE races SET spec = json_set(spec, '$.members[0].name', ?) WHERE id = ?"
        database.execute(member, (evil, race.id))
    shown = [
        succeeds(*command)
        for command in (
            ("list",), ("show", job.id), ("note", job.id), ("top", "--once"), ("compare", job.id, job.id),
            ("races",), ("races", race.id), ("cancel", job.id),
        )
    ]  # fmt: skip
    written = [
        succeeds(*command)
        for command in (
            ("show", job.id, "--json"), ("list", "--json"), ("races", race.id, "--json"), ("races", "--json"),
            ("spec", job.id), ("spec", job.id, "--json"), ("race-report", race.id),
        )
    ]  # fmt: skip
    client.cancel_race(race.id)
    for text in (*shown, *written):
        assert not [one for one in text if one != "\n" and unicodedata.category(one) in ("Cc", "Cf")]
    for text in (written[0], written[5], *(written[at].splitlines()[0] for at in (1, 3))):
        assert evil in json.loads(text).values(), "a program reads it as it is"
    assert json.loads(written[2])["spec"]["members"][0]["name"] == evil
    assert load_object(written[4], "text")["name"] == evil
    for text in shown:
        assert r"red\x1b]0;title\x07 \u202etxt\x9b2J" in text
        assert not {"\x1b", "\x07", "\x9b", "\N{RIGHT-TO-LEFT OVERRIDE}"} & set(text)
    assert r"2J\nnext" in shown[0], "a row of a table stays one line"
    assert client.job(job.id).name == evil, "programs get it as it is"
