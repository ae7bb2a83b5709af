"""Shares of a step that workers waited: never more than all of it. Pure."""

from __future__ import annotations

import numpy as np

from backend.figures.heatmap import wait_shares
from backend.figures.rolled import STEP_ROW, WAIT_ROW


def step_rows(*rows: tuple[int, int, int, int]) -> np.ndarray:
    """Of (party, step, start, end)."""
    found = np.zeros(len(rows), STEP_ROW)
    for name, column in zip(("party", "step", "start", "end"), zip(*rows, strict=True), strict=True):
        found[name] = column
    return found


def test_a_share_of_a_step_is_at_most_all_of_it() -> None:
    """Of the last step both workers wait until the others' answers have come, after their own steps have ended."""
    rows = step_rows((0, 0, 0, 90), (1, 0, 0, 95), (0, 1, 100, 140), (1, 1, 100, 150))
    waits = np.array([(0, 0, 100), (0, -1, 20), (1, 0, 150), (1, 1, 40)], WAIT_ROW)
    edges, shares = wait_shares(rows, waits, (2, 2))
    assert edges.tolist() == [0, 100, 150]
    assert shares[:, 0].tolist() == [0.5, 0]
    assert shares[:, 1].sum() == 1
    assert (shares <= 1).all()
