"""Two servers on one PostgreSQL: what is asked of one happens at both, nothing runs twice, and one goes on when the
other is gone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import select, update

from backend.client import Client
from backend.db import Database
from backend.db.models import Attempt, ServerRow, Transition
from backend.executors import local, process
from backend.lifecycle import Reason
from backend.postgres import Cluster
from backend.services.nodes import Nodes
from tests.backend import warm
from tests.backend.executor_attempts import until
from tests.backend.held_jobs import held_spec, let_go
from tests.backend.house import House
from tests.backend.job_specs import job_spec
from tests.backend.live_server import LiveServer
from tests.backend.test_api_notices import Feed

JOBS = 6


@pytest.fixture
def houses(
    server_lane: None, tmp_path: Path, postgres: Cluster, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[House, House]]:
    """Two servers' inner parts, each with two slots; their schedulers are not started."""
    monkeypatch.setattr(local, "subprocess", warm.PROGRAMS)
    warm.address()
    url = postgres.new_schema()
    for name in "ab":
        (tmp_path / name / "jobs").mkdir(parents=True)  # as a server makes it at its start
    both = House(tmp_path / "a", url), House(tmp_path / "b", url)
    yield both
    with both[0].database.read() as session:
        directories = list(session.scalars(select(Attempt.directory)))
    for house in both:
        house.leave()
    for directory in directories:
        process.kill_marked(Path(directory))


def where(house: House, job_id: str) -> list[str]:
    """The servers' folders in which a job's attempts were placed."""
    return [Path(attempt.directory).parents[2].name for attempt in house.attempts(job_id)]


def test_jobs_of_two_servers_run_once_each_on_the_devices_of_both(houses: tuple[House, House]) -> None:
    a, b = houses
    for house in houses:
        house.scheduler.start()
    jobs = [houses[n % 2].submit("work", workers=2) for n in range(JOBS)]
    assert [a.ends(id_).state for id_ in jobs] == ["succeeded"] * JOBS
    assert [len(b.attempts(id_)) for id_ in jobs] == [1] * JOBS
    with a.database.read() as session:
        moves = session.scalars(select(Transition.to_state).where(Transition.attempt_id.is_(None))).all()
    assert moves.count("placing") == JOBS
    (node,) = Nodes(a.database, a.membership).all()
    assert (len(node.servers), node.state, node.cpu_slots) == (2, "up", 4)
    assert node.free["cpu"] == 4


def test_what_one_is_asked_the_other_does(houses: tuple[House, House]) -> None:
    a, b = houses
    b.scheduler.start()
    running = a.submit("sleep")
    a.reaches(running, "running")
    assert where(a, running) == ["b"]
    a.cancel(running)
    assert a.ends(running).reason == Reason.CANCELLED


def test_who_leaves_while_its_job_runs_is_followed_by_the_other(houses: tuple[House, House]) -> None:
    a, b = houses
    a.scheduler.start()
    running, waiting = a.submit("sleep"), a.submit("work")
    a.reaches(running, "running")
    before = a.living(running)
    until(lambda: a.job(waiting).reason == Reason.WAITING_FOR_DEVICES, "the other one waits")
    a.scheduler.close()
    b.scheduler.start()
    assert b.ends(waiting).state == "succeeded"
    assert where(b, waiting) == ["b"], "its own slots are free: those of the job that runs are the other's"
    assert b.job(running).state == "running"
    assert (b.living(running), where(b, running)) == (before, ["a"])
    a.restart()
    second = a.submit("work")
    assert a.ends(second).state == "succeeded"
    assert where(a, second) == ["b"], "a's slots are occupied still, whoever looks after the job"
    a.cancel(running)
    assert a.ends(running).state == "cancelled"
    assert len(a.attempts(running)) == 1


def test_a_launch_that_one_was_stopped_before_happens_at_most_once(houses: tuple[House, House]) -> None:
    """The first server is stopped between placing and launching for so long that the other one takes the job over."""
    a, b = houses
    reached, go_on = threading.Event(), threading.Event()
    launch = a.scheduler._executor.launch

    def slow(*given: object) -> object:
        reached.set()
        assert go_on.wait(60)
        return launch(*given)  # type: ignore[arg-type]

    a.scheduler._executor.launch = slow  # type: ignore[assignment, method-assign]
    a.membership.renew_s = 600.0  # type: ignore[attr-defined]
    a.scheduler.start()
    id_ = a.submit("work")
    assert reached.wait(60)
    b.database.writer.run(lambda session: session.execute(update(ServerRow).values(until_unix_ns=1)))
    b.scheduler.start()
    assert b.ends(id_).state == "succeeded"
    go_on.set()
    second = a.submit("work")
    assert a.ends(second).state == "succeeded"
    first, done = b.attempts(id_)
    assert (first.state, first.reason, done.state) == ("failed", Reason.LAUNCH_INTERRUPTED, "succeeded")
    assert [len(list((Path(one.directory)).glob("end.json"))) for one in (first, done)] == [0, 1]


def test_a_job_too_wide_for_one_server_runs_on_another_and_one_too_wide_for_all_ends(
    houses: tuple[House, House],
) -> None:
    a, b = houses
    b.close()
    b.open(3)
    a.scheduler.start()
    b.membership._join()
    wide = a.submit("work", workers=3)
    until(lambda: a.job(wide).message is not None, "the first one says that it waits for the other")
    assert (a.job(wide).state, a.job(wide).reason) == ("queued", Reason.WAITING_FOR_DEVICES)
    b.scheduler.start()
    assert a.ends(wide).state == "succeeded"
    assert where(a, wide) == ["b"]
    assert a.ends(a.submit("work", workers=4)).reason == Reason.TOO_FEW_DEVICES


def test_one_says_why_jobs_wait(houses: tuple[House, House]) -> None:
    a, b = houses
    for house in houses:
        house.scheduler.start()
    running = [a.submit("sleep") for _ in houses]
    for id_ in running:
        a.reaches(id_, "running")
    waiting, next_one = a.submit("work"), b.submit("work")
    until(lambda: a.job(next_one).message is not None, "both are told")
    revision = a.job(waiting).revision
    for _ in range(3):
        for house in houses:
            house.scheduler.wake()
        b.ends(b.submit("work", workers=5))  # it goes behind them, and is looked at
    assert a.job(waiting).revision == revision, (
        "the other one, whose devices others hold, does not correct it"
    )
    for id_ in running:
        a.cancel(id_)
    assert [a.ends(id_).state for id_ in (waiting, next_one)] == ["succeeded"] * 2


def test_a_killed_servers_jobs_go_on_at_the_other(
    server_lane: None, tmp_path: Path, postgres: Cluster, descriptions: Path
) -> None:
    """Those that run, as their supervisors outlive the server and the other one sees them, and those that wait."""
    url = postgres.new_database()
    settings = {"cpu_devices": 2, "warm_jobs": True, "database_url": url}
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "cache").symlink_to(descriptions)
    with ExitStack() as stack:
        a = stack.enter_context(LiveServer(tmp_path / "a", **settings))
        at_a = stack.enter_context(Client(a.url))
        first = at_a.submit(held_spec("runs at a", steps=40)).id
        until(lambda: at_a.job(first).state == "running", "it runs")
        b = stack.enter_context(LiveServer(tmp_path / "b", **settings))
        at_b = stack.enter_context(Client(b.url))
        feed = stack.enter_context(Feed(b))
        feed.until("ready")
        second = at_a.submit(held_spec("runs at b", steps=40)).id
        feed.until("job", second, "running")
        third = at_a.submit(job_spec("waits")).id
        feed.until("job", third, "queued")
        a.process.kill()
        a.process.wait()
        database = Database(url)
        stack.callback(database.close)
        database.writer.run(
            lambda s: s.execute(
                update(ServerRow).where(ServerRow.called.contains(a.url)).values(until_unix_ns=1)
            )
        )
        let_go(tmp_path / "b", second)
        feed.until("job", third, "succeeded")
        assert at_b.job(first).state == "running"
        let_go(tmp_path / "a", first)
        for job_id in (first, second, third):
            job = at_b.wait(job_id, timeout_s=120)
            assert (job.state, len(job.attempts), job.attempts[0].sealed) == ("succeeded", 1, True), (
                job.message
            )
        assert [job.step for job in map(at_b.job, (first, second))] == [40, 40]
