"""Values made once for everybody who asks at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from backend.services.remember import Remembered


def test_whoever_asks_meanwhile_gets_the_same_value() -> None:
    remembered: Remembered[object] = Remembered(room=4)
    made: list[object] = []
    everybody = threading.Barrier(9, timeout=30)

    def make() -> object:
        everybody.wait()  # nobody gets an answer before all have asked
        made.append(object())
        return made[-1]

    def ask(first: bool) -> object:
        if not first:
            everybody.wait()
        return remembered.get("key", make)

    with ThreadPoolExecutor(9) as pool:
        found = list(pool.map(ask, [True] + [False] * 8))
    assert len(made) == 1
    assert set(found) == set(made)


def test_errors_are_told_and_not_kept() -> None:
    remembered: Remembered[int] = Remembered(room=4)

    def fail() -> int:
        raise ValueError("not this time")

    with pytest.raises(ValueError, match="not this time"):
        remembered.get("key", fail)
    assert remembered.get("key", lambda: 1) == 1


def test_least_recently_used_values_go_first() -> None:
    remembered: Remembered[bytes] = Remembered(room=10, size=len)
    for name in "abc":
        remembered.get(name, lambda: b"1234")
    assert remembered.get("c", lambda: b"new") == b"1234"
    assert remembered.get("a", lambda: b"new") == b"new"
