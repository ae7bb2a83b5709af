"""What a message costs is measured once for all who ask, and a failure is no answer for ever."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine import measured_here, message_cost
from engine.measured_here import RETRY_S, Measured
from engine.message_cost import failed
from engine.plan.plan import MessageCost

COST = MessageCost(seconds=200e-6)
FAILED = MessageCost(why="no sockets here")
LIMIT_S = 60.0


def test_it_is_measured_on_real_connections() -> None:
    found = message_cost.here()
    assert found.seconds is not None, found.why
    assert 1e-6 < found.seconds < 0.1
    assert message_cost.here() is found, "once"


def test_who_asks_while_it_is_measured_waits_for_that_answer() -> None:
    begun, again = threading.Event(), threading.Event()

    def measure() -> MessageCost:
        (again if begun.is_set() else begun).set()
        again.wait(0.5)  # long enough for a second one to come here, if it did not wait
        return COST

    cost = Measured(measure, failed)
    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(cost.get)
        assert begun.wait(LIMIT_S)
        answers = [first, *(threads.submit(cost.get) for _ in range(3))]
        assert [answer.result(LIMIT_S) for answer in answers] == [COST] * 4
    assert cost.get() == COST
    assert not again.is_set()


def test_a_failure_is_remembered_for_a_while() -> None:
    now, answers = [1_000.0], [FAILED, COST]
    cost = Measured(lambda: answers.pop(0), failed, clock=lambda: now[0])
    assert [cost.get(), cost.get()] == [FAILED, FAILED]
    now[0] += RETRY_S - 1
    assert cost.get() == FAILED, "not every request tries again"
    now[0] += 1
    assert cost.get() == COST
    now[0] += 10 * RETRY_S
    assert cost.get() == COST, "what was measured is not measured again"


def test_who_waits_is_answered_where_measuring_raises() -> None:
    def measure() -> MessageCost:
        raise ZeroDivisionError("all is lost")

    cost = Measured(measure, failed)
    with pytest.raises(ZeroDivisionError):
        cost.get()
    assert cost.get().why == "ZeroDivisionError: all is lost"


@pytest.mark.parametrize(
    ("plane", "program", "why"),
    [
        ("rust", sys.executable, "ValueError: data_plane = 'rust'"),
        ("", "/bin/true", "could not convert string to float"),
        ("", "/no/such/program", "No such file"),
    ],
    ids=["it fails", "it says nothing", "it cannot be started"],
)
def test_why_it_cannot_be_measured_is_said(
    monkeypatch: pytest.MonkeyPatch, plane: str, program: str, why: str
) -> None:
    monkeypatch.setenv("TRAINYARD_DATA_PLANE", plane)
    monkeypatch.setattr(measured_here.sys, "executable", program)
    found = message_cost.measure()
    assert found.seconds is None
    assert why in found.why
