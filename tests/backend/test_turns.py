"""Who may do what takes long, and who may wait for it."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

import pytest

from backend.services.asker import Asker
from backend.services.errors import Busy, Left
from backend.services.turns import Turns
from tests.backend.executor_attempts import until


def turns() -> Turns:
    return Turns(waiting=1, busy="{places} wait", retry_after_s=7)


def test_who_has_left_gives_the_place_to_others_while_somebody_has_a_turn() -> None:
    mine, over = turns(), threading.Event()

    def wait(asker: Asker | None) -> None:
        with mine.turn(asker):
            assert over.wait(60)

    with closing(Asker()) as asker, ThreadPoolExecutor(3) as threads:
        first = threads.submit(wait, None)
        until(lambda: not mine._slots._value, "the first one has its turn")
        second = threads.submit(wait, asker)
        until(lambda: not mine._places._value, "the second one waits")
        with pytest.raises(Busy, match=r"2 wait. Ask again in 7 s"), mine.turn():
            pass
        asker.leave()
        try:
            with pytest.raises(Left):
                second.result(30)
            third: Future[None] = threads.submit(wait, None)
            until(lambda: not mine._places._value, "its place is another one's")
        finally:
            over.set()
        first.result(30)
        third.result(30)


def test_who_has_left_before_their_turn_does_nothing() -> None:
    mine = turns()
    with closing(Asker()) as asker:
        asker.leave()
        with pytest.raises(Left), mine.turn(asker):
            pytest.fail("nobody wants it")
    with mine.turn():
        pass
