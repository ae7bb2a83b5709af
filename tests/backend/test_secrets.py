"""Secrets of jobs: what is stored of them, who gets them, and that nothing tells them."""

from __future__ import annotations

import stat
from functools import partial
from pathlib import Path

import pytest
from fastapi import FastAPI

from backend.access.rights import Caller
from backend.db import Database, models
from backend.executors import process
from backend.executors.redaction import PIECE_BYTES, Redaction
from backend.executors.supervised import Supervised
from backend.services.errors import Conflict
from backend.services.secrets import Secrets
from backend.services.vault import Vault, anything_sealed
from engine.errors import UserError
from engine.gang.process import MOST_SAID
from engine.gang.process import _explain as explain
from engine.redaction import VARIABLE, blotted
from tests.backend.executor_attempts import NOWHERE, ended, launch, programs_executor
from tests.backend.guarded import admin, let_in, refused, who_shows
from tests.backend.job_specs import job_spec

HF = "hf_abcdefghijklmnop"
ADA = Caller(name="ada", role="member")


def test_a_secret_is_kept_encrypted_and_never_answered(guarded: FastAPI) -> None:
    ada, bob = (who_shows(guarded, let_in(guarded, name, "member")) for name in ("ada", "bob"))
    kept = ada.put("/api/v1/secrets/HF_TOKEN", json={"value": HF})
    assert (kept.status_code, set(kept.json())) == (200, {"name", "changed_at"})
    assert [one["name"] for one in ada.get("/api/v1/secrets").json()] == ["HF_TOKEN"]
    assert bob.get("/api/v1/secrets").json() == admin(guarded).get("/api/v1/secrets").json() == []
    folder = Path(guarded.state.context.settings.data_dir)
    assert stat.S_IMODE((folder / "secrets.key").stat().st_mode) == 0o600
    for file in folder.glob("trainyard.db*"):
        assert HF.encode() not in file.read_bytes()
    assert HF not in admin(guarded).get("/api/v1/audit?limit=200").text
    spec = job_spec("with a secret", secrets=["HF_TOKEN"])
    assert "bob has no secret of that name" in refused(bob.post("/api/v1/jobs", json=spec), 422)
    made = ada.post("/api/v1/jobs", json=spec)
    assert made.status_code == 201, made.text
    assert HF not in ada.get(f"/api/v1/jobs/{made.json()['id']}/specification?whole=true").text
    secrets = guarded.state.context.secrets
    assert secrets.opened("ada", ("HF_TOKEN",)) == {"HF_TOKEN": HF}
    with pytest.raises(UserError, match="has no secret"):
        secrets.opened("bob", ("HF_TOKEN",))
    boss = admin(guarded)
    assert "names secrets" in refused(boss.delete("/api/v1/users/ada"), 409)
    race = {"job": job_spec("raced", secrets=["HF_TOKEN"]), "members": [{"strategy": "central-reduce"}]}
    race["members"].append({"strategy": "ring-allreduce"})
    raced = ada.post("/api/v1/races", json=race)
    assert raced.status_code == 201, raced.text
    more = {"members": [{"strategy": "tree-allreduce"}]}
    assert "are its owner's" in refused(
        boss.post(f"/api/v1/races/{raced.json()['id']}/members", json=more), 403
    )
    ada.post(f"/api/v1/jobs/{made.json()['id']}/cancel", json={})
    assert "race" in refused(boss.delete("/api/v1/users/ada"), 409)
    assert boss.patch("/api/v1/users/ada", json={"role": "viewer"}).status_code == 200
    assert ada.put("/api/v1/secrets/HF_TOKEN", json={"value": HF}).status_code == 403
    assert ada.delete("/api/v1/secrets/HF_TOKEN").status_code == 204
    assert "no such secret" in refused(ada.delete("/api/v1/secrets/HF_TOKEN"), 404)


@pytest.mark.parametrize(
    "name", ["hf", "1A", "A-B", "PATH", "LD_PRELOAD", "PYTHONPATH", "TRAINYARD_TOKEN", "A" * 101]
)
def test_a_name_that_tells_programs_how_to_work_is_refused(guarded: FastAPI, name: str) -> None:
    assert admin(guarded).put(f"/api/v1/secrets/{name}", json={"value": HF}).status_code == 422


@pytest.mark.parametrize("value", ["", "q2-7x", "x" * 20_000, "\ud800" * 9])
def test_a_value_that_cannot_be_kept_is_not_repeated(
    small_database: Database, tmp_path: Path, value: str
) -> None:
    with pytest.raises(UserError) as error:
        Secrets(small_database, Vault(tmp_path / "key")).keep(ADA, "HF_TOKEN", value)
    assert not value or value not in str(error.value)


def test_what_was_sealed_opens_with_its_key_and_in_its_place_only(
    tmp_path: Path, small_database: Database
) -> None:
    secrets = Secrets(small_database, Vault(tmp_path / "key"))
    secrets.keep(ADA, "HF_TOKEN", HF)
    other = Vault(tmp_path / "other")
    other.seal("x", "y")
    with pytest.raises(Conflict, match="another key"):
        Secrets(small_database, other).opened("ada", ("HF_TOKEN",))
    with pytest.raises(Conflict, match="cannot be read"):
        Secrets(small_database, Vault(tmp_path / "missing")).opened("ada", ("HF_TOKEN",))

    lost = Vault(tmp_path / "missing", partial(anything_sealed, small_database))
    with pytest.raises(Conflict, match="Put it back"):
        lost.seal("x", "y")
    assert not (tmp_path / "missing").exists()

    def swap(session: object) -> None:
        session.query(models.Secret).one().owner = "bob"  # type: ignore[attr-defined]

    small_database.writer.run(swap)
    with pytest.raises(Conflict, match="somebody has changed the database"):
        secrets.opened("bob", ("HF_TOKEN",))


@pytest.mark.usefixtures("server_lane")
def test_a_job_and_no_other_gets_it_and_nothing_tells_it(tmp_path: Path) -> None:
    executor = programs_executor()
    told = executor.launch(launch(tmp_path / "with", "fails and tells its secret"), NOWHERE, {"HF_TOKEN": HF})
    plain = executor.launch(launch(tmp_path / "without", "sleep"), NOWHERE)
    giver, other = (Supervised.of(each) for each in (told, plain))
    environment = Path(f"/proc/{other.identity.pid}/environ").read_bytes()
    assert HF.encode() not in environment
    end = ended(executor, told)
    assert end.status == "failed"
    logs = b"".join(file.read_bytes() for file in (giver.directory / "logs").iterdir())
    assert b"the secret is " + b"*" * len(HF) in logs
    left = [
        file for file in giver.directory.rglob("*") if file.is_file() and HF.encode() in file.read_bytes()
    ]
    assert left == []
    assert HF not in f"{end}"
    for one in process.marked(other.directory):
        assert HF.encode() not in Path(f"/proc/{one.pid}/environ").read_bytes()
    executor.stop(plain, force=True)
    ended(executor, plain)


def test_blots_go_over_the_edges_of_what_is_read(tmp_path: Path) -> None:
    log, offsets = tmp_path / "log", (0, PIECE_BYTES - 5, 2 * PIECE_BYTES + 3)
    content = bytearray(b"." * (3 * PIECE_BYTES))
    for at in offsets:
        content[at : at + len(HF)] = HF.encode()
    blots = Redaction([log, tmp_path / "missing"], [HF])
    blots.hold()
    half = len(content) + 7
    log.write_bytes(bytes(content) + HF.encode()[:7])
    blots.hold()
    with log.open("ab") as more:
        more.write(HF.encode()[7:])
    blots.hold()
    found = log.read_bytes()
    assert HF.encode() not in found
    assert len(found) == half + len(HF) - 7
    assert found.count(b"*") == 4 * len(HF)
    log.write_bytes(b"begins anew " + HF.encode())
    blots.hold()
    assert HF.encode() not in log.read_bytes()


def test_messages_are_blotted_wherever_they_hold_one() -> None:
    said = {"message": f"no such {HF}", "traceback": [f"{HF}", 3], "type": None}
    assert HF not in str(blotted(said, [HF]))
    assert blotted("nothing", [HF]) == "nothing"


def test_what_is_cut_off_was_blotted_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of a secret, at the end of what is kept of a message, is nothing that the supervisor would find."""
    monkeypatch.setenv(VARIABLE, "HF_TOKEN")
    monkeypatch.setenv("HF_TOKEN", HF)
    attempt = launch(tmp_path / "attempt", "sleep")
    attempt.error(attempt.parties[0]).parent.mkdir(parents=True, exist_ok=True)
    explain(attempt, 0, RuntimeError("." * (MOST_SAID - 6) + HF))
    written = attempt.error(attempt.parties[0]).read_text()
    assert "..******" in written
    assert HF[:4] not in written
