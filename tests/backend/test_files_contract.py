"""What the files of every executor's attempts keep (`backend/executors/attempt_files.py`)."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backend.chaos.ray_nodes import RayNodes
from backend.executors import files as words
from backend.executors.attempt_files import AttemptFiles, Piece
from backend.executors.base import Ended, Ingest
from backend.executors.local_files import LocalFiles
from backend.executors.log_limit import BLOCK, LogLimit
from backend.executors.ray_executor import RayExecutor
from backend.executors.ray_gang import RayGang, Spot
from backend.lifecycle import Reason
from engine.checkpoint.store import Kept, folder_name
from engine.regular import NotRegularError
from tests.backend.executor_attempts import until

JOB = "a-job"
END = Ended(status="failed", reason=Reason.PROCESS_FAILED, message="", ended_unix_ns=1, party="worker 1")


def local(tmp_path: Path, _request: pytest.FixtureRequest) -> tuple[AttemptFiles, Path]:
    directory = tmp_path / "jobs" / JOB / "1"
    return LocalFiles(str(directory)), directory


def ray(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[AttemptFiles, Path]:
    nodes: RayNodes = request.getfixturevalue("ray_node")
    gang = RayGang.planned(tmp_path / "jobs" / JOB / "1")
    Path(gang.directory).mkdir(parents=True)
    address = max(nodes.nodes)
    replace(gang.on([Spot(node="", address=address)]), launched=True).write()
    return RayExecutor(nodes.address).files(gang.directory), nodes.own(address) / gang.place


MAKERS = {"local": local, "ray": ray}
"""Of executors: its files of an attempt, and where that lies on its machine."""


@pytest.fixture(params=["local", pytest.param("ray", marks=pytest.mark.soak)])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[AttemptFiles, Path]]:
    files, place = MAKERS[request.param](tmp_path, request)
    (place / "logs").mkdir(parents=True)
    until(files.reachable, "whoever has the files is connected to")
    yield files, place
    shutil.rmtree(place.parent, ignore_errors=True)


@pytest.fixture
def files(made: tuple[AttemptFiles, Path]) -> AttemptFiles:
    return made[0]


@pytest.fixture
def place(made: tuple[AttemptFiles, Path]) -> Path:
    """Where the attempt truly lies."""
    return made[1]


def test_a_piece_is_read_from_either_end(files: AttemptFiles, place: Path) -> None:
    (place / "logs" / "worker-0.log").write_bytes(b"0123456789")

    def read(offset: int, most: int) -> Piece:
        return files.read("logs/worker-0.log", offset, most)

    assert files.size("logs/worker-0.log") == 10
    assert read(2, 3) == Piece(offset=2, content=b"234", next_offset=5, size=10)
    assert read(-4, 100) == Piece(offset=6, content=b"6789", next_offset=10, size=10)
    assert read(-40, 1) == Piece(offset=0, content=b"0", next_offset=1, size=10)
    assert read(40, 1) == Piece(offset=10, content=b"", next_offset=10, size=10)


def test_of_a_hole_nothing_is_read_and_the_next_piece_lies_behind_it(
    files: AttemptFiles, place: Path
) -> None:
    log = place / "logs" / "worker-0.log"
    log.write_bytes(b"x" * 6 * BLOCK)
    LogLimit([log], first=BLOCK, last=BLOCK, slack=0).hold()
    at, pieces = 0, []
    while at < 6 * BLOCK:
        piece = files.read("logs/worker-0.log", at, 10 * BLOCK)
        at = piece.next_offset
        pieces.append((piece.offset, len(piece.content), piece.next_offset))
    assert pieces == [(0, BLOCK, BLOCK), (BLOCK, 0, 5 * BLOCK), (5 * BLOCK, BLOCK, 6 * BLOCK)]


def test_what_is_no_regular_file_or_lies_elsewhere_is_refused(
    files: AttemptFiles, place: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("not for you")
    os.mkfifo(place / "logs" / "pipe.log")
    (place / "logs" / "link.log").symlink_to(tmp_path / "secret")
    (place / "linked").symlink_to(tmp_path)
    for name in ("logs/pipe.log", "logs/link.log", "linked/secret", "logs"):
        with pytest.raises(NotRegularError):
            files.read(name, 0, 100)
    assert files.size("logs/pipe.log") is None
    for name in ("../secret", str(tmp_path / "secret"), "logs/../../secret", ""):
        with pytest.raises(ValueError, match="below an attempt's directory"):
            files.read(name, 0, 100)
    with pytest.raises(FileNotFoundError):
        files.read("logs/none.log", 0, 100)
    assert files.size("logs/none.log") is None


def test_a_small_file_is_written_whole_for_this_user_only(
    files: AttemptFiles, place: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("stays")
    (place / "record.json").symlink_to(tmp_path / "secret")
    for content in (b"first", b"second, longer"):
        files.write("record.json", content)
        assert files.read("record.json", 0, 100).content == content
    assert stat.S_IMODE((place / "record.json").lstat().st_mode) == 0o600
    assert (tmp_path / "secret").read_text() == "stays"
    with pytest.raises(ValueError, match="is in a folder"):
        files.write("logs/record.json", b"")


def test_how_an_attempt_ended_and_what_its_job_keeps(files: AttemptFiles, place: Path) -> None:
    assert (files.failed_party(), files.ended_steps(), files.checkpoints()) == (None, None, [])
    words.write_end(Path(files.directory), END)
    (place / "result").mkdir()
    (place / "result" / "model.pt").write_bytes(b"")
    (place / "result" / "summary.json").write_text('{"steps": 12}')
    times = {}
    for step in (100, 200):
        manifest = place.parent / "checkpoints" / folder_name(step) / "manifest.json"
        manifest.parent.mkdir(parents=True)
        manifest.write_text(json.dumps({"step": step, "parts": {"worker-0": {"bytes": step}}}))
        times[step] = manifest.stat().st_mtime_ns
    assert (files.failed_party(), files.ended_steps()) == ("worker 1", 12)
    assert files.checkpoints() == [
        Kept(step=step, bytes=step, written_unix_ns=times[step]) for step in (200, 100)
    ]


def test_an_attempt_that_was_never_launched_has_nothing_to_send_and_a_server_that_is_not_there_gets_none(
    files: AttemptFiles, place: Path
) -> None:
    assert files.drain("http://127.0.0.1:9", 0.1) is None
    words.write_ingest(place, Ingest(url="http://127.0.0.1:9", attempt=1, token="token"))
    (place / "spool").mkdir()
    end = files.drain("http://127.0.0.1:9", 0.1)
    assert end is not None
    assert (end.sealed, end.refused) == (False, False)
    assert end.problem


def test_what_is_removed_is_gone_and_twice_is_harmless(files: AttemptFiles, place: Path) -> None:
    (place.parent / "checkpoints").mkdir()
    assert files.there()
    assert files.reachable()
    for _ in range(2):
        files.remove(JOB)
        assert not files.there()
    assert not place.parent.exists()
    assert files.reachable(), "the place of its job is still there"
    with pytest.raises(FileNotFoundError):
        files.write("record.json", b"")


def test_another_jobs_checkpoints_are_left_alone(files: AttemptFiles, place: Path) -> None:
    (place.parent / "checkpoints").mkdir()
    files.remove("another-job")
    assert (place.parent / "checkpoints").is_dir()
