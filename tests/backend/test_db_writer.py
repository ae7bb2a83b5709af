"""The writer: one transaction at a time, notices in the order of commits, nothing half done."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from backend.db import Database, WriterError, notify, uuid7
from backend.db.models import Job, Notice
from tests.backend.executor_attempts import until


@pytest.fixture
def database(new_database: Database) -> Database:
    """One for each test."""
    return new_database


def add_job(session: Session, name: str = "a job") -> str:
    job = Job(id=uuid7(), name=name, spec={}, state="queued", created_unix_ns=1)
    session.add(job)
    notify(session, job.id, "job", {"state": "queued"})
    return job.id


def test_a_write_is_seen_by_readers_after_commit(database: Database) -> None:
    job_id = database.writer.run(add_job)
    with database.read() as session:
        job = session.get_one(Job, job_id)
    assert (job.name, job.priority, job.revision) == ("a job", 0, 0)


def test_a_write_that_raises_stores_nothing_and_wakes_nobody(database: Database) -> None:
    heard: list[int] = []
    database.writer.listen(lambda notices: heard.extend(notice.id for notice in notices))

    def fails(session: Session) -> None:
        add_job(session)
        raise LookupError("no such baseline")

    with pytest.raises(LookupError, match="no such baseline"):
        database.writer.run(fails)
    database.writer.run(add_job)
    database.writer.close()  # who asked has the answer before listeners hear of it
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(Job)) == 1
    assert len(heard) == 1


def test_notices_are_heard_in_the_order_of_their_ids_from_many_threads(database: Database) -> None:
    heard: list[int] = []
    database.writer.listen(lambda notices: heard.extend(notice.id for notice in notices))
    threads = [
        threading.Thread(target=lambda: [database.writer.run(add_job) for _ in range(20)], daemon=True)
        for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    database.writer.close()
    assert len(heard) == 100
    assert heard == sorted(heard)
    with database.read() as session:
        assert list(session.scalars(select(Notice.id).order_by(Notice.id))) == heard


def test_ids_of_deleted_notices_are_not_given_again(database: Database) -> None:
    heard: list[int] = []
    database.writer.listen(lambda notices: heard.extend(notice.id for notice in notices))
    database.writer.run(add_job)
    until(lambda: heard, "listeners hear of it")
    database.writer.run(lambda session: session.delete(session.get_one(Notice, heard[0])))
    database.writer.run(add_job)
    database.writer.close()
    assert heard[1] > heard[0]


def test_one_broken_listener_does_not_keep_the_others_from_hearing(database: Database) -> None:
    heard: list[int] = []

    def broken(_notices: list[Notice]) -> None:
        raise RuntimeError("the page is gone")

    stop = database.writer.listen(broken)
    database.writer.listen(lambda notices: heard.extend(notice.id for notice in notices))
    database.writer.run(add_job)
    until(lambda: heard, "the other one hears of it")
    stop()
    database.writer.run(add_job)
    database.writer.close()
    assert len(heard) == 2


def test_reading_sessions_cannot_write(database: Database) -> None:
    with database.read() as session:
        session.add(Job(id=uuid7(), name="a job", spec={}, state="queued", created_unix_ns=1))
        with pytest.raises(DBAPIError, match=r"read-?only"):
            session.flush()


def test_a_read_session_is_one_snapshot(database: Database) -> None:
    count = select(func.count()).select_from(Job)
    with database.read() as session:
        before = session.scalar(count)
        database.writer.run(add_job)
        assert session.scalar(count) == before == 0
    with database.read() as session:
        assert session.scalar(count) == 1


def test_a_stuck_transaction_is_named_and_what_never_began_never_runs(database: Database) -> None:
    release = threading.Event()
    began = threading.Event()

    def slow(_session: Session) -> None:
        began.set()
        release.wait(30)

    stuck = database.writer.submit(slow)
    began.wait(30)
    with pytest.raises(WriterError, match="never began and will not run"):
        database.writer.run(add_job, timeout_s=0.05)
    release.set()
    stuck.result(30)
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(Job)) == 0


def test_a_closed_writer_says_so(database: Database) -> None:
    database.writer.close()
    with pytest.raises(WriterError, match="shutting down"):
        database.writer.run(add_job)


def test_a_write_inside_of_a_write_is_refused_instead_of_waiting_for_itself(database: Database) -> None:
    with pytest.raises(WriterError, match="use the session that is at hand"):
        database.writer.run(lambda _session: database.writer.run(add_job))


def test_foreign_keys_hold(database: Database) -> None:
    with pytest.raises(DBAPIError, match=r"(?i)foreign key"):
        database.writer.run(lambda session: notify(session, "no such job", "job", {}))


def test_uuid7_sorts_by_time() -> None:
    ids = [uuid7() for _ in range(100)]
    assert len(set(ids)) == 100
    assert [i[:13] for i in ids] == sorted(i[:13] for i in ids)
    assert all(i[14] == "7" and i[19] in "89ab" for i in ids)
