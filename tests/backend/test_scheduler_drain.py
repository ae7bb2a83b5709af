"""What attempts left in their spools is sent, whatever another attempt's directory holds."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from backend.db import Database
from backend.db.models import Attempt
from backend.executors import files
from backend.executors.attempt_files import FilesAwayError
from backend.executors.base import Ingest
from backend.executors.local_files import LocalFiles
from backend.scheduler import drain as drains
from backend.scheduler.drain import Drain
from engine.telemetry.uploader import UploadEnd
from tests.backend.executor_attempts import DEADLINE_S, until
from tests.backend.ingest_server import TOKEN, IngestServer, add_attempt


def test_a_broken_directory_does_not_keep_the_telemetry_of_the_others(
    tmp_path: Path, new_database: Database
) -> None:
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    for directory in (broken, whole):
        (directory / "spool").mkdir(parents=True)
    (broken / "ingest.json").write_text("{")
    attempt = add_attempt(new_database)
    server = IngestServer(new_database, 0)
    files.write_ingest(whole, Ingest(url=server.url, attempt=attempt, token=TOKEN))
    drain = Drain(server.url)
    drain.add(LocalFiles(str(broken)))
    drain.add(LocalFiles(str(whole)))

    def sealed() -> bool:
        with new_database.read() as session:
            return session.get_one(Attempt, attempt).sealed

    until(sealed, "the whole directory is sealed")
    server.close()


def test_a_spool_out_of_reach_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drains, "AGAIN_S", 0.05)
    tries = []

    class Away(LocalFiles):
        def drain(self, url: str, timeout_s: float) -> UploadEnd | None:
            tries.append(url)
            if len(tries) == 1:
                raise FilesAwayError(self.directory, "node-2", "it has not answered for 10 s")
            return super().drain(url, timeout_s)

    Drain("http://here").add(Away(str(tmp_path)))
    until(lambda: len(tries) == 2, "it is asked again")


def test_a_spool_on_a_slow_machine_holds_up_no_others(tmp_path: Path) -> None:
    slow, other = threading.Event(), threading.Event()

    class Slow(LocalFiles):
        def drain(self, url: str, timeout_s: float) -> UploadEnd | None:
            assert slow.wait(DEADLINE_S)
            return None

    class Other(LocalFiles):
        def drain(self, url: str, timeout_s: float) -> UploadEnd | None:
            other.set()
            return None

    drain = Drain("http://here")
    drain.add(Slow(str(tmp_path)))
    drain.add(Other(str(tmp_path)))
    assert other.wait(DEADLINE_S)
    slow.set()


def test_what_cannot_be_sent_now_is_tried_again(
    tmp_path: Path,
    new_database: Database,
    port: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(drains, "TIMEOUT_S", 0.2)
    monkeypatch.setattr(drains, "AGAIN_S", 0.2)
    (tmp_path / "spool").mkdir()
    attempt = add_attempt(new_database)
    server = IngestServer(new_database, port)
    server.close()
    files.write_ingest(tmp_path, Ingest(url=server.url, attempt=attempt, token=TOKEN))
    drain = Drain(server.url)
    drain.add(LocalFiles(str(tmp_path)))
    until(lambda: "stays in its spool" in caplog.text, "the first try has ended")
    server = IngestServer(new_database, port)

    def sealed() -> bool:
        with new_database.read() as session:
            return session.get_one(Attempt, attempt).sealed

    until(sealed, "the attempt is sealed once the server is there")
    server.close()
