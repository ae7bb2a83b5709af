"""Figures are drawn elsewhere: what a killed drawing process, a killed server and an error come to."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing import active_children
from pathlib import Path

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from backend.db import Database
from backend.db.engine import sqlite_url
from backend.db.models import Job
from backend.executors import process
from backend.services.drawing import Drawing
from engine.errors import UnknownNameError, UserError
from tests.backend.executor_attempts import until
from tests.backend.ingest_server import add_attempt

SERVER = """
import os, sys, time
from backend.services.drawing import Drawing
from tests.backend.test_drawing import who
print(Drawing(sys.argv[1], 1).run(who)[0], flush=True)
time.sleep(600)
"""


def who(session: Session) -> tuple[int, int]:
    """Its process, and how many jobs it sees."""
    return os.getpid(), session.scalar(select(func.count()).select_from(Job)) or 0


def refuse(session: Session, name: str) -> None:
    raise UnknownNameError("figure", name, "figure", ["timeline"])


def write(session: Session) -> None:
    session.add(Job(id="1", name="not for a reader", spec={}, state="queued", created_unix_ns=0))
    session.commit()


@pytest.fixture
def url(tmp_path: Path) -> str:
    found = sqlite_url(tmp_path / "trainyard.db")
    database = Database(found)
    add_attempt(database)
    database.close()
    return found


@pytest.fixture
def drawing(url: str) -> Iterator[Drawing]:
    drawing = Drawing(url, 1)
    yield drawing
    drawing.close()


def test_a_killed_drawing_process_is_replaced_and_closing_ends_it(drawing: Drawing) -> None:
    first, jobs = drawing.run(who)
    assert (first != os.getpid(), jobs) == (True, 1)
    os.kill(first, signal.SIGKILL)
    second, _ = drawing.run(who)
    assert second not in {first, os.getpid()}
    mine = process.identity(second)
    assert mine is not None
    drawing.close()
    assert not process.is_alive(mine)


def test_processes_that_were_made_ready_draw(url: str) -> None:
    drawing = Drawing(url, 2)
    before = set(active_children())
    drawing.make_ready()
    ready = {child.pid for child in set(active_children()) - before}
    assert len(ready) == 2
    drawing.make_ready()
    assert drawing.run(who)[0] in ready
    assert {child.pid for child in set(active_children()) - before} == ready
    drawing.close()


def test_errors_arrive_as_they_were_raised_and_nothing_is_written(drawing: Drawing) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'timeline'") as caught:
        drawing.run(refuse, "timelin")
    assert (caught.value.field, caught.value.value) == ("figure", "timelin")
    with pytest.raises(RuntimeError, match="cannot be written"):
        drawing.run(write)


def test_a_drawing_process_ends_with_its_server(url: str) -> None:
    server = subprocess.Popen([sys.executable, "-c", SERVER, url], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    drawer = process.identity(int(server.stdout.readline()))
    assert drawer is not None
    server.kill()
    server.wait()
    server.stdout.close()
    until(lambda: not process.is_alive(drawer), "it has ended")


def test_an_error_for_a_person_survives_a_pickle() -> None:
    found = pickle.loads(pickle.dumps(UserError("port", 80, "is in use", "Choose another")))
    assert found.to_dict() == {"field": "port", "value": 80, "rule": "is in use", "remedy": "Choose another"}
    assert str(found) == "port = 80: is in use. Choose another"
