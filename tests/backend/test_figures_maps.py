"""Maps of values: their cells show every value in its colour, and are never too many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backend.figures.draw import MAX_OUTLINES
from backend.figures.maps import LEVELS, Map
from backend.figures.theme import between

ENDS = ("#000000", "#f0f0f0")


def painted(traces: list[Any], edges: np.ndarray, rows: int, top: int = 0) -> np.ndarray:
    """(rows, n): the level of the colour that is seen in the middle of each cell; -1: none."""
    colours = between(*ENDS, LEVELS)
    middles = (edges[1:] + edges[:-1]) / 2
    seen = np.full((rows, len(middles)), -1)
    for trace in traces:
        x, y = (np.asarray(column, float).reshape(-1, 5) for column in (trace.x, trace.y))
        for left, right, low, high in zip(x[:, 0], x[:, 1], y[:, 0], y[:, 2], strict=True):
            at = round((low + high) / 2) - top
            assert at - 0.5 < low - top < high - top < at + 0.5, "a row's cells stay within it"
            seen[at, (middles > left) & (middles < right)] = colours.index(trace.fillcolor)
    return seen


def test_every_cell_has_the_colour_of_its_value() -> None:
    random = np.random.default_rng(0)
    values = np.where(random.random((7, 90)) < 0.4, 0, random.random((7, 90)) * 3)
    values[4] = np.nan
    edges = np.cumsum(random.random(91) + 0.1)
    grid = Map(values, edges, 3.0, ENDS, gap=0.1, top=2)
    seen = painted(grid.cells(), edges, 7, top=2)
    assert (seen[4] == -1).all()
    others = np.arange(7) != 4
    assert (seen[others] == np.rint(values[others] / 3 * (LEVELS - 1))).all()
    assert grid.pointed(y=np.arange(7)).z == pytest.approx(values, nan_ok=True)


def test_what_is_over_the_last_colour_has_it() -> None:
    edges = np.arange(4.0)
    assert painted(
        Map(np.array([[9.0, 1.0, -1.0]]), edges, 1.0, ENDS, gap=0.1).cells(), edges, 1
    ).tolist() == [[LEVELS - 1, LEVELS - 1, 0]]


def test_too_many_cells_share_columns_and_keep_their_mean() -> None:
    values = np.random.default_rng(0).random((40, 1_001))
    edges = np.arange(1_002.0)
    traces = Map(values, edges, 1.0, ENDS, gap=0.1).cells()
    assert len(traces) == LEVELS
    boxes = sum(len(trace.x) // 5 for trace in traces[1:])  # the first is under all of them
    assert MAX_OUTLINES / 4 < boxes <= MAX_OUTLINES
    level = painted(traces, edges, 40)
    assert level.mean(axis=1) / (LEVELS - 1) == pytest.approx(values.mean(axis=1), abs=0.02)
    assert max(np.asarray(trace.x).max(initial=0, where=~np.isnan(trace.x)) for trace in traces) == 1_001


def test_who_points_is_told_what_is_drawn() -> None:
    values = np.random.default_rng(0).random((40, 1_001))
    grid = Map(values, np.arange(1_002.0), 1.0, ENDS, gap=0.1)
    told = grid.pointed(y=np.arange(40))
    assert told.z.shape[1] == len(told.x) - 1 < 250
    middles = (told.x[1:] + told.x[:-1]) / 2
    seen = painted(grid.cells(), np.arange(1_002.0), 40)[:, middles.astype(int)]
    assert (seen == np.rint(told.z * (LEVELS - 1))).all()


def test_a_column_without_values_takes_none_from_its_neighbour() -> None:
    values = np.random.default_rng(0).random((40, 1_000))
    values[3, 1::2] = np.nan
    values[7] = np.nan
    grid = Map(values, np.arange(1_001.0), 1.0, ENDS, gap=0.1)
    told = grid.pointed(y=np.arange(40)).z
    assert np.nanmean(told[3]) == pytest.approx(np.nanmean(values[3]))
    assert np.isnan(told[7]).all()
    assert not np.isnan(np.delete(told, 7, axis=0)).any()
    seen = painted(grid.cells(), np.arange(1_001.0), 40)
    assert (np.delete(seen, 7, axis=0) >= 0).all()
    assert (seen[7] == -1).all()


def test_there_are_as_many_traces_whatever_the_values() -> None:
    traces = Map(np.zeros((0, 5)), np.arange(6.0), 1.0, ENDS).cells()
    assert [len(trace.x) for trace in traces] == [0] * LEVELS
