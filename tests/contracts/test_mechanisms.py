"""What every value of every axis must hold: it exists and loads, or says why not."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from engine.axes.consistency import CONSISTENCY
from engine.axes.exchange import EXCHANGE, Exchange
from engine.catalogue import Axis, Mechanism
from engine.errors import UnknownNameError, UserError
from engine.plan.plan import AXES, Plan
from engine.plan.serde import from_plain
from engine.protocol.assembly import algorithm_of

VALUES = [(axis, mechanism) for axis in AXES for mechanism in axis]
each = pytest.mark.parametrize(
    ("axis", "mechanism"), VALUES, ids=lambda v: v.name if isinstance(v, (Axis, Mechanism)) else ""
)


def plan_with(axis: str, value: str) -> dict[str, Any]:
    """A plan in plain data whose only layer, or which itself, makes this choice."""
    head, _, part = axis.partition(".")
    choices: dict[str, Any] = {"strategy": "by hand", "layers": [{"layer": "a"}]}
    if axis == "consistency":
        choices["consistency"] = {"mode": value} | (
            {"period": 5} if value in ("average", "streaming") else {}
        )
    elif head == "input":
        choices["input"] = {part: value}
    elif part:
        size = 5 if value in ("slice", "bucket") else None
        choices["layers"][0][head] = {part: value, "size": size}
    else:
        choices["layers"][0][axis] = value
    return choices


def field_of(axis: str) -> str:
    if axis == "consistency":
        return "consistency.mode"
    return axis if axis.startswith("input") else f"layers.0.{axis}"


def test_every_axis_is_listed_once_and_asks_a_question() -> None:
    names = [axis.name for axis in AXES]
    assert len(set(names)) == len(names)
    assert all(axis.question.endswith("?") for axis in AXES)


@pytest.mark.parametrize("axis", AXES, ids=lambda axis: axis.name)
def test_names_are_unique_and_something_works(axis: Axis) -> None:
    assert len(set(axis.names)) == len(axis.names)
    assert any(mechanism.available for mechanism in axis)


@each
def test_it_is_described_and_is_there_or_says_why_not(axis: Axis, mechanism: Mechanism) -> None:
    assert mechanism.summary.endswith(".")
    assert (mechanism.implementation is None) != (mechanism.missing is None)
    assert axis[mechanism.name] is mechanism
    if mechanism.available:
        loaded = mechanism.load()
        assert callable(loaded)
        assert loaded.__doc__


@each
def test_a_plan_takes_what_is_there_and_refuses_what_is_missing_with_the_reason(
    axis: Axis, mechanism: Mechanism
) -> None:
    plain = plan_with(axis.name, mechanism.name)
    if mechanism.available:
        assert from_plain(Plan, plain)
        return
    with pytest.raises(UserError) as caught:
        from_plain(Plan, plain)
    error = caught.value
    assert error.field == field_of(axis.name)
    assert error.value == mechanism.name
    assert error.rule == f"not available: {mechanism.missing}"
    assert error.remedy == f"Use one of: {', '.join(m.name for m in axis if m.available)}"


@pytest.mark.parametrize("axis", AXES, ids=lambda axis: axis.name)
def test_an_unknown_value_lists_the_known_ones(axis: Axis) -> None:
    with pytest.raises(UnknownNameError) as caught:
        from_plain(Plan, plan_with(axis.name, "no-such-value"))
    assert caught.value.field == field_of(axis.name)
    assert all(name in caught.value.remedy for name in axis.names)


@pytest.mark.parametrize("row", [row for row in EXCHANGE if row.rounds is not None], ids=lambda row: row.name)
def test_what_runs_follows_the_rounds_that_the_row_names(row: Exchange) -> None:
    """A backend's own collectives follow what nobody sees; of them the row says what they are taken for."""
    assert callable(algorithm_of(row.name).program)
    if "counted" in row.traits:
        assert row.load().algorithm is algorithm_of(row.name)


@pytest.mark.parametrize(
    "mode", [row for row in CONSISTENCY if "drifts" in row.traits], ids=lambda row: row.name
)
def test_how_many_workers_an_update_takes_follows_from_a_setting_that_the_mode_has(mode: Mechanism) -> None:
    policy = mode.load()
    assert policy.least_set_by in ("", *(field.name for field in fields(policy.settings)))
    assert policy.least_set_by or policy.least_workers == 1


def test_a_mechanism_is_either_there_or_missing() -> None:
    with pytest.raises(ValueError, match="either an implementation or the reason why not"):
        Mechanism(name="x", summary="Both.", implementation="a:b", missing="late")
    with pytest.raises(ValueError, match="either an implementation or the reason why not"):
        Mechanism(name="x", summary="Neither.")
