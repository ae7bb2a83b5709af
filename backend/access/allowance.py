"""How many requests a token may make: so many in a second, and for a while more.

A program that asks in a loop does not take the server from everybody else. Times are in seconds, of any clock that only
goes forward.
"""

from __future__ import annotations

BURST_S = 10.0
"""Who has been quiet for so long may make at once what so many seconds allow: a page asks for much when it opens."""


class Allowances:
    """A bucket for each token. There are as many as tokens that open something, so memory does not grow with
    requests. Used from one thread."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._most = max(1.0, per_second * BURST_S)
        self._left: dict[int, tuple[float, float]] = {}
        """By token: what was left, and when."""

    def wait_s(self, token: int, now: float) -> float:
        """Takes one request from the token's allowance, and answers 0; where there is none left, takes nothing and
        answers in how long there is one."""
        left, at = self._left.get(token, (self._most, now))
        left = min(self._most, left + max(0.0, now - at) * self._per_second)
        if left < 1:
            self._left[token] = (left, now)
            return (1 - left) / self._per_second
        self._left[token] = (left - 1, now)
        return 0.0
