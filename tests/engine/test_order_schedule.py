"""Departure and rank on a virtual clock: the examples of papers 004, with the units, keys and queue that jobs use."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from engine.axes.order import DEPART, RANK
from engine.order.departure import AfterBackward, WhenReady
from engine.order.keys import by_forward_position, fifo, rank_in_step
from engine.plan.description import ModelDescription
from engine.plan.plan import Order, Servers
from engine.plan.units import Unit, cut
from engine.transport.queue import PriorityQueue
from tests.plans import made_up, resolved, served


def serial(arrivals: Iterable[tuple[int, Unit]], key: Callable[[Unit, int], int]) -> dict[Unit, int]:
    """When each unit has left a link that takes one time unit per element, one unit after the other."""
    coming = sorted(arrivals, key=lambda arrival: arrival[0])
    queue: PriorityQueue[Unit] = PriorityQueue()
    done: dict[Unit, int] = {}
    now = 0
    while coming or queue:
        while coming and coming[0][0] <= now:
            _, unit = coming.pop(0)
            queue.push(key(unit, 0), unit)
        if queue:
            unit = queue.pop()
            now += unit.count
            done[unit] = now
        else:
            now = coming[0][0]
    return done


def units_of(model: ModelDescription, order: Order) -> tuple[Unit, ...]:
    layers = [served(layer.name, order=order) for layer in model.layers]
    return cut(resolved(model, *layers, servers=Servers(count=1)), model)


def backward(units: tuple[Unit, ...], depart: str, layers: int) -> list[tuple[int, Unit]]:
    """When each unit leaves the worker: backward takes one time unit per layer, from the last to the first."""
    left: list[tuple[int, Unit]] = []
    now = 0
    departure = DEPART[depart].load()(lambda unit: left.append((now, unit)))
    for position in reversed(range(layers)):
        now += 1
        for unit in units:
            if unit.position == position:
                departure.ready(unit)
    departure.backward_ended()
    return left


@pytest.mark.parametrize(
    ("depart", "rank", "gap"),
    [
        ("when-ready", "fifo", 4),
        ("when-ready", "priority", 2),
        ("after-backward", "fifo", 6),
        ("after-backward", "priority", 2),
    ],
)
def test_the_gap_of_figure_4(depart: str, rank: str, gap: int) -> None:
    """Three layers; backward takes 1 per layer, synchronization 2: how long the first layer is waited for.

    The paper shows 4 and 2 for departure when ready; after backward the queue drains from the start.
    """
    order = Order(depart=depart, rank=rank, returns="push")
    units = units_of(made_up((2,), (2,), (2,)), order)
    done = serial(backward(units, depart, layers=3), RANK[rank].load())
    first = next(unit for unit in units if unit.position == 0)
    assert done[first] - 3 == gap


@pytest.mark.parametrize(("size", "total"), [(None, 10), (1, 7)])
def test_slicing_shortens_the_example_of_figure_6(size: int | None, total: int) -> None:
    """The middle layer is three times as heavy: sent one after another, updated in parallel, returned in turn."""
    order = Order(unit="slice" if size else "layer", size=size, returns="push")
    units = units_of(made_up((1,), (3,), (1,)), order)
    sent = serial([(0, unit) for unit in sorted(units, key=lambda u: -u.position)], fifo)
    updated = [(time + unit.count, unit) for unit, time in sent.items()]
    assert max(serial(updated, fifo).values()) == total


def test_keys_are_equal_or_forward_positions() -> None:
    units = units_of(made_up((4,), (2,), (6,)), Order(unit="slice", size=2, rank="priority", returns="push"))
    assert {fifo(unit, step) for unit in units for step in (0, 7)} == {0}
    assert [by_forward_position(unit, 0) for unit in units] == [0, 0, 1, 2, 2, 2]
    assert [rank_in_step(by_forward_position(unit, 7)) for unit in units] == [0, 0, 1, 2, 2, 2]
    assert [m.load() for m in RANK] == [fifo, by_forward_position]


def test_an_older_step_goes_before_a_newer_one() -> None:
    """A worker that is ahead must not hold back the parameters that the other one still waits for."""
    first, *_, last = units_of(made_up((4,), (2,), (6,)), Order(rank="priority", returns="push"))
    assert by_forward_position(last, 6) < by_forward_position(first, 7)
    assert by_forward_position(last, 2**16 - 1) < 2**31


def test_departures_let_every_unit_go_once_in_the_order_of_readiness() -> None:
    units = units_of(made_up((1,), (1,), (1,)), Order(returns="push"))
    left: list[Unit] = []
    now, later = WhenReady(left.append), AfterBackward(left.append)
    for step in range(2):
        for unit in reversed(units):
            now.ready(unit)
        assert left == [*reversed(units)], step
        now.backward_ended()
        left.clear()
        for unit in reversed(units):
            later.ready(unit)
        assert left == []
        later.backward_ended()
        assert left == [*reversed(units)], step
        left.clear()
