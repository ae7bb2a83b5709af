"""RetrySpec: how often a job that failed is tried again, and how long it waits before."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.catalogue import STRICT
from engine.errors import UserError

MOST = 100
"""Retries of one job."""
LONGEST_S = 3600.0
"""Between two attempts."""


@dataclass(frozen=True, kw_only=True)
class RetrySpec:
    """What happens after a failure that another attempt may cure."""

    __pydantic_config__ = STRICT

    times: int = 0
    """So many further attempts, each from the newest checkpoint, else from the beginning. 0: the first failure ends the
    job."""
    backoff_s: float = 10.0
    """Seconds before the first retry. Each later one waits twice as long as the one before it, an hour at most."""

    def __post_init__(self) -> None:
        if not 0 <= self.times <= MOST:
            raise UserError("times", self.times, f"must be from 0 to {MOST}", "Use fewer retries")
        if not 0 <= self.backoff_s < math.inf:
            rule = "must be zero or more (seconds)"
            raise UserError("backoff_s", self.backoff_s, rule, "Give a number of seconds")

    def delay_s(self, retry: int) -> float:
        """Seconds between the end of an attempt and retry number `retry`, counted from 1."""
        return min(self.backoff_s * 2.0 ** (retry - 1), LONGEST_S)
