"""What the executor `ray` does while its cluster, or a node of it, is slow or away. `test_ray.py` has a real one."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from backend.executors import files, process, ray_executor
from backend.executors.attempt_files import FilesAwayError, Piece
from backend.executors.base import Ended, LaunchError, Running
from backend.executors.ray_cluster import LOOK_S, SILENT_S, AwayError, RayCluster
from backend.executors.ray_executor import ASK_S, RayExecutor
from backend.executors.ray_files import RayFiles
from backend.executors.ray_gang import RECORD, RayGang, Spot
from backend.executors.ray_node import Report
from backend.lifecycle import Reason
from engine.launch import Launch
from engine.plan.job import NetworkSpec
from tests.backend.executor_attempts import NOWHERE, ended, launch

NOBODY = "127.0.0.1:9"
SPOTS = [Spot(node=f"id {n}", address=f"10.0.0.{n}") for n in range(2)]


class Slow(RayCluster):
    """Without Ray: what is asked of nodes is answered, or not, as the test says; room is there once it says so."""

    def __init__(self) -> None:
        super().__init__(NOBODY)
        self.room = threading.Event()
        self.refuses: str | None = None
        self.waited: list[float] = []
        self.silent: set[str] = set()
        """Addresses of nodes that do not answer."""
        self.released: list[str] = []
        self.keeps = 0
        """How many times more it gives nothing back."""

    @property
    def ray(self) -> Any:
        return SimpleNamespace(exceptions=SimpleNamespace(RayError=SystemError, RayActorError=SystemError))

    def outage(self) -> str | None:
        return None

    def reserve(self, name: str, bundles: list[dict[str, float]], *, spread: bool) -> list[Spot]:
        self.room.wait()
        if self.refuses:
            raise LaunchError(self.refuses)
        return SPOTS

    def find(self, name: str) -> Any | None:
        return SimpleNamespace(poll=SimpleNamespace(remote=lambda place: f"poll {name}"))

    def ready(self, asked: Sequence[Any], timeout_s: float, *, least: int | None = None) -> set[Any]:
        self.waited.append(timeout_s)
        return {one for one in asked if not any(address in str(one) for address in self.silent)}

    def answer(self, asked: Any, timeout_s: float) -> Any:
        raise FileNotFoundError(asked) if "10.0.0.1" in asked else AwayError(asked)

    def keeper(self, address: str) -> Any:
        ask = SimpleNamespace(remote=lambda *_: f"asked {address}")
        return SimpleNamespace(ask_files=ask)

    def release(self, group: str, actors: Sequence[str]) -> None:
        if self.keeps:
            self.keeps -= 1
            raise AwayError("the head does not answer")
        self.released.append(group)


@pytest.fixture
def cluster() -> Slow:
    return Slow()


@pytest.fixture
def executor(cluster: Slow) -> RayExecutor:
    return on(cluster)


def on(cluster: RayCluster) -> RayExecutor:
    made = RayExecutor(NOBODY)
    made._cluster = cluster
    return made


def trusted(directory: Path) -> Launch:
    made = launch(directory, "work")
    return replace(made, job=replace(made.job, network=NetworkSpec(trusted=True)))


def placed(directory: Path) -> RayGang:
    """An attempt that was launched on two nodes."""
    (directory / "attempt").mkdir()
    gang = replace(RayGang.planned(directory / "attempt").on(SPOTS), launched=True)
    gang.write()
    return gang


def test_nobody_waits_for_a_launch_and_what_fails_in_it_is_the_attempts_end(
    executor: RayExecutor, cluster: Slow, tmp_path: Path
) -> None:
    handle = executor.launch(trusted(tmp_path), NOWHERE)  # returns, although there is no room yet
    assert executor.poll(handle) == Running(phase="starting")
    cluster.refuses = "the Ray cluster has no room for the gang"
    cluster.room.set()
    end = ended(executor, handle)
    assert (end.status, end.reason) == ("failed", Reason.LAUNCH_FAILED)
    assert end.message == f"cannot launch on the Ray cluster: {cluster.refuses}"
    assert cluster.released == [RayGang.of(handle).group]
    assert executor.poll(handle) == end


def test_a_launch_that_is_stopped_ends_as_cancelled(
    executor: RayExecutor, cluster: Slow, tmp_path: Path
) -> None:
    handle = executor.launch(trusted(tmp_path), NOWHERE)
    executor.stop(handle)
    cluster.room.set()
    assert ended(executor, handle).status == "cancelled"


def test_a_launch_that_a_servers_end_broke_off_is_given_up_by_the_next_one(
    executor: RayExecutor, cluster: Slow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = executor.launch(trusted(tmp_path), NOWHERE)
    later = on(Slow())
    assert later.find(tmp_path / "attempt") == handle
    assert later.poll(handle) == Running(phase="starting"), "who launches it lives"
    monkeypatch.setattr(process, "is_alive", lambda _who: False)
    end = ended(later, handle)
    assert (end.status, end.reason) == ("failed", Reason.LAUNCH_INTERRUPTED)
    cluster.refuses = "nobody wants it any more"
    cluster.room.set()


def test_a_given_up_launch_has_not_ended_while_its_room_is_not_given_back(
    executor: RayExecutor, cluster: Slow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def sleep(_seconds: float) -> None:
        asked.set()
        go_on.wait()

    monkeypatch.setattr(ray_executor.time, "sleep", sleep)
    cluster.refuses, cluster.keeps = "there is no room", 2
    cluster.room.set()
    handle = executor.launch(trusted(tmp_path), NOWHERE)
    asked.wait()
    assert executor.poll(handle) == Running(phase="starting")
    monkeypatch.undo()
    monkeypatch.setattr(ray_executor, "AGAIN_S", 0)
    go_on.set()
    assert ended(executor, handle).reason == Reason.LAUNCH_FAILED
    assert (cluster.keeps, cluster.released) == (0, [RayGang.of(handle).group])


@pytest.mark.parametrize("lost", ["directory", "record"])
def test_a_gang_of_which_nothing_is_written_down_any_more_is_ended_and_says_so(
    executor: RayExecutor, cluster: Slow, tmp_path: Path, lost: str
) -> None:
    gang = placed(tmp_path)
    who = process.identity(os.getpid())
    assert who is not None
    assert files.claim(Path(gang.directory), who), "who launched it lives"
    if lost == "directory":
        shutil.rmtree(gang.directory)
        executor.stop(gang.handle())
    else:
        (Path(gang.directory) / RECORD).unlink()
        assert executor.find(Path(gang.directory)) == gang.handle()
    end = ended(executor, gang.handle())
    assert (end.status, end.reason) == ("failed", Reason.DIRECTORY_LOST)
    assert cluster.released == [gang.group]
    assert on(Slow()).poll(gang.handle()) == end


def test_an_end_is_kept_while_ray_keeps_the_room_and_outlives_the_actors(
    executor: RayExecutor, cluster: Slow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gang = placed(tmp_path)
    done = Ended(status="succeeded", reason=Reason.COMPLETED, message="it is done", ended_unix_ns=1)
    monkeypatch.setattr(cluster, "answer", lambda _asked, _timeout_s: Report(state=done))
    cluster.keeps = 1
    with pytest.raises(AwayError):
        executor.poll(gang.handle())
    assert files.read_end(Path(gang.directory)) is None
    assert on(Slow()).poll(gang.handle()) == done, "the next server's life"


def test_a_node_that_does_not_answer_is_waited_for_once(
    executor: RayExecutor, cluster: Slow, tmp_path: Path
) -> None:
    handle = placed(tmp_path).handle()
    cluster.silent = {f"poll {RayGang.of(handle).hosts[1].actor}"}
    for _ in range(3):
        assert executor.poll(handle) == Running(phase="starting")
    assert cluster.waited == [ASK_S, 0, 0]


def nodes_asked(lying: RayFiles) -> Iterable[Any]:
    yield lambda: lying.read("logs/worker-0.log", 0, 9)
    yield lying.there
    yield lambda: lying.remove("job")


def test_files_on_a_node_that_is_away_or_slow_are_out_of_reach_whatever_is_asked(
    cluster: Slow, tmp_path: Path
) -> None:
    placed(tmp_path)
    lying = RayFiles(cluster, str(tmp_path / "attempt"))
    for silent in ({"10.0.0.0"}, set[str]()):  # the other one answers, that it has nothing
        cluster.silent = silent
        for ask in nodes_asked(lying):
            with pytest.raises(FilesAwayError, match=r"node 10\.0\.0\.0"):
                ask()
    assert (tmp_path / "attempt").is_dir(), "nothing was removed"
    nobody = RayFiles(RayCluster(NOBODY), str(tmp_path / "attempt"))
    for ask in nodes_asked(nobody):
        with pytest.raises(FilesAwayError, match="does not answer"):
            ask()
    assert not nobody.reachable()


def test_what_one_node_has_is_read_while_another_does_not_answer(
    cluster: Slow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed(tmp_path)
    piece = Piece(offset=0, content=b"log", next_offset=3, size=3)
    monkeypatch.setattr(cluster, "answer", lambda asked, _timeout_s: piece)
    cluster.silent = {"10.0.0.0"}
    assert RayFiles(cluster, str(tmp_path / "attempt")).read("logs/worker-1.log", 0, 9) == piece


def test_a_cluster_where_nobody_is_says_so_and_nobody_waits_for_it() -> None:
    cluster = RayCluster(NOBODY)
    assert cluster.outage() == f"this server is connecting to the Ray cluster at {NOBODY}"
    with pytest.raises(AwayError, match=f"the Ray cluster at {NOBODY} does not answer") as error:
        _ = cluster.ray
    cluster._see()
    assert cluster.outage() == str(error.value)
    cluster._trouble, cluster._looks = None, time.monotonic()
    assert cluster.outage() is None
    cluster._looked -= LOOK_S + SILENT_S
    assert "is looking whether" in str(cluster.outage()), "what was seen long ago says nothing of now"
