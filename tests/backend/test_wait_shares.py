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
    edges, shares = wait_shares(rows, waits, 2)
    assert edges.tolist() == [0, 100, 150]
    assert shares[:, 0].tolist() == [0.5, 0]
    assert shares[:, 1].sum() == 1
    assert (shares <= 1).all()


def test_a_worker_that_starts_late_has_its_own_time() -> None:
    """The second one starts each step later than the first: its last wait is no less of its step for that."""
    rows = step_rows((0, 0, 0, 100), (0, 1, 100, 200), (1, 0, 80, 180), (1, 1, 180, 280))
    waits = np.array([(0, 0, 96 + 96), (1, 0, 100 + 100)], WAIT_ROW)
    edges, shares = wait_shares(rows, waits, 1)
    assert edges.tolist() == [0, 100, 280]
    assert shares.tolist() == [[0.96, 1]]


def test_of_steps_in_groups_a_worker_has_its_own_time_too() -> None:
    """Two steps a group; the second worker has not come to the second group yet."""
    rows = step_rows(
        (0, 0, 0, 10), (1, 0, 50, 60), (0, 1, 10, 20), (1, 1, 60, 90), (0, 2, 20, 30), (0, 3, 30, 60)
    )
    waits = np.array([(0, 0, 15), (2, 0, 10)], WAIT_ROW)
    _, shares = wait_shares(rows, waits, 1, stride=2)
    assert shares.tolist() == [[15 / (20 + 40), 10 / 40]]
