"""The figure of the largest batch over a worker's memory."""

from __future__ import annotations

import pytest

from backend.figures.registry import PLAN_FIGURES, plan_figure
from backend.figures.request import FigureRequest
from engine.errors import UnknownNameError
from engine.plan.largest import LargestCurve, Line
from tests.backend.figures_drawn import answer, column, traces

KEEP = Line(way="keep", memory=[2**28, 2**29], samples=[4, 8], samples_per_s=[80.0, 82.5])
MIXED = Line(
    way="budget (1 keep, 2 swap)", memory=[2**27, 2**29], samples=[5, 31], samples_per_s=[60.0, 61.0]
)
PIECES = Line(way="through-time, recompute", memory=[2**28], samples=[9], samples_per_s=[None])


def test_each_way_is_a_line_of_batches_and_one_of_rates_where_these_are_known() -> None:
    curve = LargestCurve(memory=2**29, rates="guessed", lines=[KEEP, MIXED, PIECES])
    content = answer(plan_figure("largest-batch").build(curve, FigureRequest(width=900)))
    drawn = traces(content, "scatter")
    assert [(line["name"], line["yaxis"]) for line in drawn] == [
        ("keep", "y"),
        ("keep", "y2"),
        (MIXED.way, "y"),
        (MIXED.way, "y2"),
        (PIECES.way, "y"),
    ]
    assert column(drawn[2]["x"]).tolist() == [128, 512]
    assert column(drawn[2]["y"]).tolist() == [5, 31]
    assert column(drawn[1]["y"]).tolist() == [80, 82.5]
    assert content["layout"]["xaxis2"]["title"]["text"] == "memory that a worker has"
    alt = content["layout"]["meta"]["alt"]
    assert "keep: 8 samples in 512.0 MiB, 82.5 a second" in alt
    assert alt.endswith("through-time, recompute: 9 samples in 256.0 MiB")
    assert "guessed" in alt


def test_a_large_memory_is_drawn_in_gib() -> None:
    curve = LargestCurve(
        memory=2**34, rates="", lines=[Line(way="keep", memory=[2**34], samples=[8], samples_per_s=[1.0])]
    )
    content = answer(plan_figure("largest-batch").build(curve, FigureRequest(width=300, theme="dark")))
    assert column(traces(content, "scatter")[0]["x"]).tolist() == [16]


def test_figures_of_plans_are_listed_by_name() -> None:
    assert all(plan_figure(name) is figure for name, figure in PLAN_FIGURES.items())
    with pytest.raises(UnknownNameError, match="largest-batch"):
        plan_figure("largest")
