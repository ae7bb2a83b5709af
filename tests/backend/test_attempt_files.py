"""What a user's code puts in the place of files of its attempt: nobody who reads there waits, or shows what a link
leads to. And what we write there is for this user only."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from backend.executors import files
from backend.executors.base import Ended, Ingest, Running
from backend.executors.local import LocalExecutor
from backend.executors.local_files import LocalFiles
from backend.lifecycle import Reason
from backend.services import logs
from backend.services.errors import Conflict
from engine.gang.gang import Gang
from engine.plan.cluster import Party
from engine.regular import NotRegularError, open_regular, overwrite_regular, read_regular, write_whole
from engine.telemetry import asked
from engine.telemetry.batch import Batch, encode
from engine.telemetry.spool import SpoolReader, SpoolWriter
from tests.backend import executor_attempts
from tests.backend.executor_attempts import NOWHERE, ended, programs_executor, until
from tests.backend.job_specs import submit
from tests.backend.posted_run import start_attempt

SECRET = json.dumps({"phase": "running", "url": "http://elsewhere", "secret": "not for you"})
TRAPS: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "pipe": (lambda path, _: os.mkfifo(path), "a pipe"),
    "link": (lambda path, secret: path.symlink_to(secret), "a link"),
    "link to nothing": (lambda path, secret: path.symlink_to(secret.with_name("nothing")), "a link"),
    "endless device": (lambda path, _: path.symlink_to("/dev/zero"), "a link"),
    "directory": (lambda path, _: path.mkdir(), "a directory"),
}
END = Ended(status="succeeded", reason=Reason.COMPLETED, message="done", ended_unix_ns=7)


@pytest.fixture(params=TRAPS)
def trap(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Path], str]:
    """Puts something in the place of a file, and answers what it is."""
    secret = tmp_path / "secret"
    secret.write_text(SECRET)

    def put(path: Path) -> str:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        make, what = TRAPS[request.param]
        make(path, secret)
        return what

    return put


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    """Its directory."""
    directory = tmp_path / "attempt"
    directory.mkdir()
    return directory


# --- each reader ---


def test_a_log_is_refused(attempt: Path, trap: Callable[[Path], str]) -> None:
    what = trap(attempt / "logs" / "worker-0.log")
    with pytest.raises(Conflict, match=f"is {what}, and no regular file. Remove it"):
        logs.read(LocalFiles(str(attempt)), ["worker 0"], party=None, offset=0, limit=100)


def test_a_log_in_a_linked_folder_is_refused(attempt: Path, tmp_path: Path) -> None:
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "worker-0.log").write_text(SECRET)
    (attempt / "logs").symlink_to(tmp_path / "others")
    with pytest.raises(Conflict, match="is a link, and no regular file"):
        logs.read(LocalFiles(str(attempt)), ["worker 0"], party=None, offset=0, limit=100)


def test_the_api_says_so(api: TestClient, tmp_path: Path) -> None:
    run = start_attempt(api, submit(api, "trapped")["id"], tmp_path)
    (tmp_path / "logs").mkdir()
    os.mkfifo(tmp_path / "logs" / "worker-0.log")
    answer = api.get(f"/api/v1/jobs/{run.job_id}/logs")
    assert answer.status_code == 409
    assert "is a pipe, and no regular file" in answer.json()["detail"]


def test_steps_cannot_be_asked_for(api: TestClient, tmp_path: Path, trap: Callable[[Path], str]) -> None:
    run = start_attempt(api, submit(api, "trapped")["id"], tmp_path)
    what = trap(tmp_path / asked.FILE)
    answer = api.post(f"/api/v1/jobs/{run.job_id}/record", json={})
    assert answer.status_code == 409
    assert what in answer.json()["detail"]
    assert (tmp_path / "secret").read_text() == SECRET


def test_what_a_supervisor_says_is_not_read(attempt: Path, trap: Callable[[Path], str]) -> None:
    for name in ("progress", "end", "ingest", files.SUPERVISOR.removesuffix(".json")):
        trap(attempt / f"{name}.json")
    assert files.read_progress(attempt) == (Running(phase="starting"), None)
    assert files.read_end(attempt) is None
    assert files.read_ingest(attempt) is None
    assert files.server_url(attempt) is None
    assert files.claimed_by(attempt) is None
    assert not files.claim(attempt, None), "somebody has it"


@pytest.mark.parametrize(
    "text", ["", "{", "7", "[" * 10_000, '{"reason": "completed"}', '{"reason": []}', "\xff"]
)
def test_what_says_nothing_is_not_read(attempt: Path, text: str) -> None:
    for name in ("progress", "end", "ingest", "supervisor"):
        (attempt / f"{name}.json").write_bytes(text.encode("latin-1"))
    assert files.read_progress(attempt) == (Running(phase="starting"), None)
    assert files.read_end(attempt) is None
    assert files.read_ingest(attempt) is None
    assert files.claimed_by(attempt) is None


def test_what_we_say_replaces_it(attempt: Path, tmp_path: Path, trap: Callable[[Path], str]) -> None:
    if "directory" in trap(attempt / "end.json"):
        with pytest.raises(IsADirectoryError):
            files.write_end(attempt, END)
        return
    for name in ("progress", "stop", "ingest"):
        trap(attempt / f"{name}.json")
    files.write_progress(attempt, END)
    files.write_end(attempt, END)
    files.write_ingest(attempt, Ingest(url="http://here", attempt=1, token="secret"))
    files.request_stop(attempt)
    assert files.read_progress(attempt)[1] == END
    assert files.read_end(attempt) == END
    assert files.server_url(attempt) == "http://here"
    assert files.stop_requested(attempt)
    assert (tmp_path / "secret").read_text() == SECRET


def test_a_batch_is_put_aside(attempt: Path, trap: Callable[[Path], str]) -> None:
    writer = SpoolWriter(attempt / "spool", 0)
    writer.write(0, encode(Batch(attempt=1, party=0, name="worker 0", sequence=0)))
    reader = SpoolReader(attempt / "spool" / "0")
    trap(attempt / "spool" / "0" / "0000000001.batch")
    assert reader.sequences() == [0, 1]
    assert reader.read(0) is not None
    assert reader.read(1) is None
    assert reader.sequences() == [0]


def test_names_that_are_no_numbers_are_no_batches(attempt: Path) -> None:
    reader = SpoolReader(attempt / "spool" / "0")
    reader.directory.mkdir(parents=True)
    for name in ("x", "1", "-000000001", "99999999999", "٠٠٠٠٠٠٠٠٠١"):
        (reader.directory / f"{name}.batch").touch()
    assert reader.sequences() == []


def test_an_acknowledgement_is_neither_read_nor_written(
    attempt: Path, tmp_path: Path, trap: Callable[[Path], str]
) -> None:
    reader = SpoolReader(attempt / "spool" / "0")
    what = trap(reader.acknowledged_path)
    with pytest.raises(NotRegularError, match=what):
        reader.acknowledged()
    with pytest.raises(OSError):  # noqa: PT011 - what the system says of a pipe that nobody reads
        reader.note(3)
    assert (tmp_path / "secret").read_text() == SECRET
    assert not (tmp_path / "nothing").exists()


def test_a_processs_last_words_are_not_read(tmp_path: Path, trap: Callable[[Path], str]) -> None:
    launch = executor_attempts.launch(tmp_path, "work")
    launch.write()
    party: Party = launch.parties[0]
    trap(launch.error(party))
    assert Gang(launch)._read_error(party) is None


@pytest.mark.usefixtures("server_lane")
def test_an_attempt_ends_whatever_is_in_the_place_of_its_end(
    tmp_path: Path, trap: Callable[[Path], str]
) -> None:
    """The server decides that it was lost, says so, and answers the same again."""
    executor: LocalExecutor = programs_executor()
    handle = executor.launch(executor_attempts.launch(tmp_path, "sleep"), NOWHERE)
    until(lambda: executor.poll(handle) == Running(phase="running"), "it runs")
    for name in ("progress", "end", "stop"):
        trap(tmp_path / "attempt" / f"{name}.json")
    assert executor.poll(handle) == Running(phase="starting")
    executor.stop(handle, force=True)
    end = ended(executor, handle)
    assert end.reason in {Reason.CANCELLED, Reason.SUPERVISOR_LOST}
    assert executor.poll(handle) == end


# --- what they stand on ---


def test_only_links_below_the_root_are_refused(tmp_path: Path) -> None:
    """Who runs the server may put its data behind a link."""
    (tmp_path / "disk" / "logs").mkdir(parents=True)
    (tmp_path / "disk" / "logs" / "a").write_text("text")
    (tmp_path / "data").symlink_to(tmp_path / "disk")
    with open_regular(tmp_path / "data" / "logs" / "a", root=tmp_path / "data") as file:
        assert file.read() == b"text"
    assert read_regular(tmp_path / "data" / "logs" / "a", 2) == b"te"
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "data" / "logs" / "b", root=tmp_path / "data")
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "data" / "nowhere" / "b", root=tmp_path / "data")


def test_what_is_written_is_whole_and_private(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_whole(path, b"first")
    overwrite_regular(path, b"F", root=tmp_path)
    assert path.read_bytes() == b"First"
    overwrite_regular(tmp_path / "b", b"made", root=tmp_path)
    assert [stat.S_IMODE(p.stat().st_mode) for p in (path, tmp_path / "b")] == [0o600, 0o600]
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path / "folder", b"")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "folder"], "and nothing else is left"
