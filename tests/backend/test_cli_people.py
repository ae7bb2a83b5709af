"""Users, tokens and the audit log from a terminal, through a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backend.access import token as tokens
from backend.client import Client
from tests.backend.executor_attempts import until
from tests.backend.guarded import TOKEN
from tests.backend.job_specs import job_spec
from tests.backend.live_server import LiveServer
from tests.backend.test_cli_jobs import succeeds, trainyard


@pytest.fixture(scope="module")
def people(
    server_lane: None, tmp_path_factory: pytest.TempPathFactory, descriptions: Path
) -> Iterator[LiveServer]:
    """A server that asks, on loopback."""
    data_dir = tmp_path_factory.mktemp("people")
    (data_dir / "cache").symlink_to(descriptions)
    with LiveServer(data_dir, scheduler=False, warm_jobs=True, token=TOKEN) as server:
        yield server


@pytest.fixture(autouse=True)
def _admin(people: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_URL", people.url)
    monkeypatch.setenv("TRAINYARD_TOKEN", TOKEN)


def test_an_admin_shares_devices_and_takes_some_out_of_use() -> None:
    assert "there are no projects" in succeeds("projects", "list")
    succeeds("projects", "set", "vision", "--cpu", "4", "--weight", "2")
    assert succeeds("projects", "list").splitlines()[1].split()[:5] == ["vision", "2", "0", "of", "4"]
    succeeds("projects", "remove", "vision")
    assert "none of them places jobs" in succeeds("nodes")
    until = f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%d %H:%M:%S}"
    number = succeeds("maintenance", "begin", "--until", until).strip()
    assert until in succeeds("maintenance", "list")
    succeeds("maintenance", "end", number)
    number = succeeds("maintenance", "begin", "cpu:0", "--make-room", "--note", "fan").strip()
    listed = succeeds("maintenance", "list").splitlines()[1]
    assert (listed.split()[:2], "makes room" in listed, listed.endswith("fan")) == (
        [number, "cpu:0"],
        True,
        True,
    )
    succeeds("maintenance", "end", number)
    assert "no device is in maintenance" in succeeds("maintenance", "list")


def test_an_admin_lets_somebody_in_who_launches_and_is_sent_away(
    people: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    succeeds("users", "add", "ada")
    told = trainyard("tokens", "new", "laptop", "--user", "ada", "--days", "7")
    token = told.stdout.strip()
    assert tokens.checked(token) == token
    assert token not in told.stderr
    assert "what a member may" in told.stderr
    assert "lea is an admin." in trainyard("users", "add", "lea", "--role", "admin").stderr
    assert "what an admin may" in trainyard("tokens", "new", "x", "--user", "lea").stderr
    with Client(people.url, token=token) as ada:
        job = ada.submit(job_spec("ada's own"))
        assert (job.owner, ada.whoami().user) == ("ada", "ada")
        assert [each.id for each in ada.jobs(owner="ada")] == [job.id]
    mine = succeeds("list", "--owner", "ada")
    assert ("owner" in mine.splitlines()[0], "ada" in mine.splitlines()[1]) == (True, True)
    assert "owner          ada" in succeeds("show", job.id)
    monkeypatch.setenv("TRAINYARD_TOKEN", token)
    refused = trainyard("users", "list")
    assert refused.exit_code == 2
    assert "list_users is for an admin, and this token is a member's" in refused.stderr
    assert "laptop" in succeeds("tokens", "list")
    succeeds("cancel", job.id)
    monkeypatch.setenv("TRAINYARD_TOKEN", TOKEN)
    row = next(line for line in succeeds("tokens", "list", "--user", "all").splitlines() if "laptop" in line)
    assert row.split()[1:4] == ["ada", "laptop", "member"]
    done = succeeds("audit", "--who", "ada")
    assert ["cancel_job" in done, "submit_job" in done, f"jobs/{job.id}" in done] == [True] * 3
    entries = [json.loads(line) for line in succeeds("audit", "--target", "users/ada", "--json").splitlines()]
    assert [(entry["who"], entry["action"]) for entry in entries] == [("admin", "add_user")]
    succeeds("users", "role", "ada", "viewer")
    assert ["ada", "viewer", "1"] in [line.split()[:3] for line in succeeds("users", "list").splitlines()]
    assert "viewer, was member" in succeeds("audit", "--action", "change_user")
    assert "laptop of ada, member, until 2" in succeeds("audit", "--action", "make_token")
    succeeds("users", "remove", "ada")
    monkeypatch.setenv("TRAINYARD_TOKEN", token)
    assert "is nobody's" in trainyard("list").stderr


def test_a_token_goes_into_a_file_or_is_revoked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "token"
    made = trainyard("tokens", "new", "nightly", "--scope", "viewer", "--out", str(out))
    assert (made.exit_code, made.stdout) == (0, "")
    again = trainyard("tokens", "new", "nightly", "--out", str(out))
    assert again.exit_code == 2
    assert "not there yet" in again.stderr
    rows = [line.split() for line in succeeds("tokens", "list").splitlines() if "nightly" in line]
    assert [row[3] for row in rows] == ["viewer"], "what could not be written is nobody's"
    monkeypatch.delenv("TRAINYARD_TOKEN")
    monkeypatch.setenv("TRAINYARD_TOKEN_FILE", str(out))
    assert trainyard("submit", "--help").exit_code == 0
    refused = trainyard("tokens", "new", "more", "--scope", "member")
    assert "may not make one that may more" in refused.stderr
    succeeds("tokens", "revoke", rows[0][0])
    assert trainyard("tokens", "list").exit_code == 2


def test_an_address_is_told_and_its_log_says_why_nothing_arrived() -> None:
    made = trainyard(
        "webhooks", "add", "chat", "-", "--of", "job.failed", given="http://localhost:9/SECRET\n"
    )
    assert made.stdout.startswith("whsec_"), made.stderr
    number, *row = succeeds("webhooks", "list").splitlines()[1].split()
    assert row == ["admin", "chat", "http://localhost:9", "job.failed", "0", "-"]
    succeeds("webhooks", "test", number)
    tried = until(
        lambda: line if "waiting  1" in (line := succeeds("webhooks", "deliveries", number)) else None,
        "the message was tried",
    )
    assert "no public address" in tried.splitlines()[1]
    assert "SECRET" not in succeeds("webhooks", "list", "--json") + tried
    succeeds("webhooks", "remove", number)
    assert "no webhooks" in succeeds("webhooks", "list")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("users", "add", "two words"), "name"),
        (("users", "add", "bob", "--role", "root"), "Known: admin, member, viewer"),
        (("users", "role", "nobody", "admin"), "no such user"),
        (("users", "remove", "admin"), "the server's own token"),
        (("tokens", "new", "x", "--scope", "god"), "no such role"),
        (
            ("webhooks", "add", "x", "https://example.org/", "--of", "job.began"),
            "Known: job.ended, job.failed",
        ),
        (("webhooks", "add", "x", "http://127.0.0.1/"), "is no public address"),
        (("webhooks", "test", "999999"), "no such webhook"),
        (("tokens", "revoke", "999999"), "no such token"),
    ],
)
def test_mistakes_are_named(arguments: tuple[str, ...], said: str) -> None:
    refused = trainyard(*arguments)
    assert refused.exit_code == 2
    assert said in refused.stderr
    assert "Traceback" not in refused.stderr
