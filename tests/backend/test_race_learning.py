"""How a race's plans learned, as a figure."""

from __future__ import annotations

from typing import Any

import pytest

from backend.figures.base import Labels
from backend.figures.compare import By
from backend.figures.race_learning import race_learning
from backend.figures.request import FigureRequest
from backend.schemas.best import BestCondition, BestCurve, BestPoint, RaceBest
from backend.services.learning import learning
from engine.errors import UserError
from tests.backend.figures_drawn import answer, column, notes, traces

SCORES = {"p3": (0.4, 0.6), "ddp": (0.5, 0.9)}


def best(score: str = "accuracy", *, counted: bool = True, **evaluated: tuple[float, ...]) -> RaceBest:
    curves = [
        BestCurve(
            member=member,
            name=name,
            rounds=3,
            points=[
                BestPoint(
                    step=8.0 * number,
                    samples=256.0 * number,
                    sent_bytes=1e6 * number if counted else None,
                    seconds=0.5 * number,
                    score=value,
                    low=value - 0.1,
                    high=value + 0.05,
                )
                for number, value in enumerate(values, 1)
            ],
        )
        for member, (name, values) in enumerate(evaluated.items())
    ]
    condition = BestCondition(condition="", sentence="", criteria=[], curves=curves, notes=[])
    return RaceBest.model_validate(
        {
            "race_id": "r",
            "name": "mine",
            "state": "finished",
            "score": score,
            "seeds": 3,
            "conditions": [condition],
        }
    )


def content(found: RaceBest, by: By = "samples", labels: Labels | None = None) -> dict[str, Any]:
    return answer(race_learning(learning(found, 0, by, labels or Labels()), FigureRequest()))


@pytest.mark.parametrize(
    ("by", "xs", "title"),
    [
        ("step", [8, 16], "step"),
        ("samples", [256, 512], "samples trained on"),
        ("bytes", [1e6, 2e6], "bytes sent"),
        ("time", [0.5, 1.0], "time"),
    ],
)
def test_each_plan_is_a_line_with_its_intervals(by: By, xs: list[float], title: str) -> None:
    drawn = content(best(**SCORES), by)
    assert drawn["layout"]["xaxis"]["title"]["text"] == title
    first, second = traces(drawn, "scatter")
    assert (first["name"], second["name"]) == ("p3", "ddp")
    assert column(first["x"]) == pytest.approx(xs)
    assert column(second["y"]) == pytest.approx([0.5, 0.9])
    assert column(first["error_y"]["array"]) == pytest.approx([0.05, 0.05])
    assert column(first["error_y"]["arrayminus"]) == pytest.approx([0.1, 0.1])
    assert drawn["layout"]["meta"]["alt"] == (
        "p3: 60.00 % (50.00 % to 65.00 %) at last; ddp: 90.00 % (80.00 % to 95.00 %) at last"
    )


def test_more_plans_than_colours_are_told_apart_by_dashes() -> None:
    drawn = traces(content(best(**{f"plan {number}": (0.5,) for number in range(8)})), "scatter")
    looks = [(one["line"]["color"], one["line"]["dash"]) for one in drawn]
    assert len(set(looks)) == 8


def test_a_loss_is_no_share() -> None:
    drawn = content(best("loss", p3=(3.0, 2.5)))
    assert drawn["layout"]["yaxis"]["title"]["text"] == "test loss"
    assert "p3: 2.500 (2.400 to 2.550)" in drawn["layout"]["meta"]["alt"]


def test_who_was_never_evaluated_is_named_and_nobody_is_said_so() -> None:
    assert "Not measured: ddp" in notes(content(best(p3=(0.5,), ddp=())))
    for found, by, reason in (
        (best(p3=()), "samples", "No test accuracy to draw: no job was evaluated"),
        (best(counted=False, p3=(0.5,)), "bytes", "No test accuracy to draw: nobody counted a plan's bytes"),
    ):
        assert content(found, by)["layout"]["meta"]["alt"] == reason


def test_what_its_jobs_are_is_said() -> None:
    drawn = content(best(p3=(0.5,)), labels=Labels(slowed="slowed: worker 1"))
    assert drawn["layout"]["meta"]["slowed"] == "slowed: worker 1"


def test_a_condition_that_a_race_does_not_have_is_refused() -> None:
    with pytest.raises(UserError, match=r"condition = 1: this race has 1, counted from 0\. Use 0"):
        learning(best(p3=(0.5,)), 1, "samples", Labels())
