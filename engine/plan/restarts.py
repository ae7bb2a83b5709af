"""How often a worker that was lost is started anew, and after which pause (`cluster.worker_loss: rejoin`)."""

from __future__ import annotations

import math

from engine.errors import UserError

MOST = 100
"""Restarts of one worker."""
LONGEST_S = 60.0
"""Between a worker's end and its next start."""


def check_restarts(restarts: int, pause_s: float) -> None:
    """Raises UserError for what is no number of restarts, or no pause."""
    if not 1 <= restarts <= MOST:
        raise UserError(
            "restarts",
            restarts,
            f"must be from 1 to {MOST}",
            "Use 3, say; a worker that is lost for good is worker_loss: go-on",
        )
    if not 0 <= pause_s < math.inf:
        raise UserError(
            "restart_pause_s", pause_s, "must be zero or more (seconds)", "Give a number of seconds; 1, say"
        )


def pause_before(restart: int, first_s: float) -> float:
    """Seconds between a worker's end and its start number `restart`, counted from 1."""
    return min(first_s * 2.0 ** (restart - 1), LONGEST_S)
