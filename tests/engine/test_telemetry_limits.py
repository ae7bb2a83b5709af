"""What limits a job, by its figures."""

from __future__ import annotations

from typing import Any

import pytest

from engine.telemetry.limits import EXPOSED, INPUT, PORT, PROCESSORS, Figures, limit, mean

WAITS = {"exposed": 0.58, "port": 0.2, "processors": 0.41}


@pytest.mark.parametrize(
    ("figures", "kind", "sentence"),
    [
        (
            WAITS | {"exposed": 0.02, "input": 0.34},
            "input",
            "input: workers wait 34 % of the step for their data; processors 41 % busy",
        ),
        (
            WAITS | {"exposed": 0.2, "input": 0.2, "port": 0.94},
            "input",
            "input: workers wait 20 % of the step for their data; 20 % for messages; processors 41 % busy",
        ),
        (  # more for messages than for data
            WAITS | {"input": 0.57, "port": 0.94},
            "port",
            "port: workers wait 58 % of the step; meanwhile the busiest port is 94 % busy; processors 41 % busy",
        ),
        (
            WAITS | {"exposed": 0.02, "port": None, "input": INPUT - 0.01},
            "compute",
            "compute: workers wait 2 % of the step; processors 41 % busy",
        ),
        (
            WAITS | {"exposed": EXPOSED - 0.01},
            "compute",
            "compute: workers wait 9 % of the step; meanwhile the busiest port is 20 % busy; processors 41 % busy",
        ),
        (
            WAITS | {"exposed": 0.02, "port": None, "processors": 0.99},
            "compute",
            "compute: workers wait 2 % of the step; processors 99 % busy",
        ),
        (
            WAITS | {"exposed": 0.02, "processors": 0.99, "rehearsed": True},
            "processors",
            "processors of this machine: 99 % busy; workers wait 2 % of the step; meanwhile the busiest port is 20 % "
            "busy",
        ),
        (
            WAITS | {"port": 0.94},
            "port",
            "port: workers wait 58 % of the step; meanwhile the busiest port is 94 % busy; processors 41 % busy",
        ),
        (
            WAITS | {"port": 0.94, "one_port": 0.941},
            "port",
            "port: workers wait 58 % of the step; meanwhile the busiest port is 94 % busy; processors 41 % busy",
        ),
        (  # two that take turns: links twice as fast would halve the wait
            WAITS | {"port": 0.94, "one_port": 0.48},
            "port",
            "port: workers wait 58 % of the step; meanwhile the port that was busiest at each moment is 94 % busy, but "
            "it is not always the same port: no single one is busier than 48 %; processors 41 % busy",
        ),
        (
            WAITS | {"port": PORT, "processors": 1.0},
            "port",
            "port: workers wait 58 % of the step; meanwhile the busiest port is 75 % busy; processors 100 % busy",
        ),
        (
            WAITS | {"processors": PROCESSORS},
            "processors",
            "processors of this machine: 85 % busy; workers wait 58 % of the step; meanwhile the busiest port is 20 % "
            "busy",
        ),
        (
            WAITS | {"processors": 0.97, "own": 0.9},
            "processors",
            "processors of this machine: 97 % busy, 90 % by this job; workers wait 58 % of the step; "
            "meanwhile the busiest port is 20 % busy",
        ),
        (
            WAITS,
            "waiting",
            "waiting: workers wait 58 % of the step; meanwhile the busiest port is 20 % busy; processors 41 % busy",
        ),
        (
            {"exposed": 0.5, "port": None, "processors": None},
            "waiting",
            "waiting: workers wait 50 % of the step; how busy ports are meanwhile is not known; "
            "processors not measured",
        ),
    ],
)
def test_a_limit_carries_its_numbers(figures: dict[str, Any], kind: str, sentence: str) -> None:
    found = limit(Figures(**figures))
    assert found is not None
    assert (found.kind, found.sentence) == (kind, sentence)


@pytest.mark.parametrize(
    ("busy", "own", "crowded"), [(1.0, 0.14, True), (1.0, 0.5, False), (1.0, None, False), (None, 0.1, False)]
)
def test_others_that_take_most_of_the_machine_are_said(
    busy: float | None, own: float | None, crowded: bool
) -> None:
    found = limit(Figures(exposed=0.5, port=0.1, processors=busy, own=own))
    assert found is not None
    assert found.crowded == crowded


def test_without_a_measured_step_there_is_none() -> None:
    assert limit(Figures(exposed=None, port=0.9, processors=0.9)) is None


def test_rounds_are_the_mean_of_what_is_known_of_them() -> None:
    one = Figures(**WAITS, one_port=0.1, input=0.3)  # type: ignore[arg-type]
    two = Figures(exposed=0.62, port=None, processors=0.61, rehearsed=True)
    assert mean([one, two]) == Figures(
        exposed=0.6, port=0.2, processors=0.51, rehearsed=True, one_port=0.1, input=0.3
    )
    assert mean([]) == Figures(exposed=None, port=None, processors=None)
