"""The virtual driver: it moves what the plan declares, and orders messages as papers 004 draws them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest

from engine.consistency.asynchronous import Asynchronous
from engine.consistency.bounded_staleness import BoundedStaleness
from engine.consistency.every_step import EveryStep
from engine.consistency.own_pace import OwnPaceSettings
from engine.consistency.policy import Policy
from engine.errors import UserError
from engine.plan.cluster import shard_party
from engine.plan.description import ModelDescription
from engine.plan.plan import LayerPlan, Order, Servers
from engine.plan.units import cut
from engine.protocol.peers import AHEAD
from engine.simulate.declared import declared, wire_bytes, wire_bytes_by_layer
from engine.simulate.happened import Compute
from engine.simulate.network import VirtualNetwork
from engine.simulate.run import simulate
from engine.transport.backlog import LEAST_FRAGMENT_BYTES
from tests.moved import by_formula
from tests.plans import PLANNED, described, made_up, planned, resolved

REPLICATED = [name for name in PLANNED if name not in ("hybrid", "model-parallel")]
"""Strategies whose layers are all on every worker."""
UNIT_NS = 1_000_000_000


@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize("strategy", REPLICATED)
def test_what_moves_is_what_is_declared(strategy: str, workers: int) -> None:
    model = described("alexnet")
    plan = planned(strategy, model, workers)
    found = simulate(plan, model, workers=workers, steps=1, policy=lambda: EveryStep(workers))
    assert found.moved == by_formula(plan, model, workers)
    said: Counter[tuple[int, int, int]] = Counter()
    for one in declared(plan, model, workers):
        said[one.source, one.destination, one.unit] += one.bytes
    assert said == found.moved


@pytest.mark.parametrize("hosts", [None, 2])
@pytest.mark.parametrize("strategy", PLANNED)
def test_layers_have_all_that_crosses_the_network(strategy: str, hosts: int | None) -> None:
    """Parties of one host talk for free: what a unit moves depends on where its parties are."""
    model = described("alexnet")
    plan = planned(strategy, model, 4)
    by_layer = wire_bytes_by_layer(plan, model, 4, hosts)
    assert sum(by_layer.values()) == wire_bytes(plan, model, 4, hosts)
    assert all(by_layer[layer.layer] > 0 for layer in plan.layers if layer.exchanges and hosts is None)


@pytest.mark.parametrize("strategy", ["p3", "ring-allreduce-overlap", "decentralized-async"])
def test_no_more_messages_are_played_out_than_somebody_waits_for(strategy: str) -> None:
    model = described("alexnet")
    plan = planned(strategy, model, 16)
    with pytest.raises(
        UserError,
        match=r"cluster.workers = 16: one step .* more than 200 messages, .*Use fewer.*larger slices",
    ):
        wire_bytes_by_layer(plan, model, 16, most=200)
    assert wire_bytes_by_layer(plan, model, 16, most=10**6) == wire_bytes_by_layer(plan, model, 16)


def test_who_waits_for_a_long_count_is_looked_at_meanwhile() -> None:
    """A ring of 50 workers takes 4,900 messages for each of three layers that are not alike."""
    model, looks = made_up((1000,), (2000,), (3000,)), []
    order = Order(unit="layer", depart="when-ready", rank="fifo")
    layers = (LayerPlan(layer=layer.name, exchange="ring-allreduce", order=order) for layer in model.layers)
    plan = resolved(model, *layers, workers=50)
    found = wire_bytes_by_layer(plan, model, 50, most=10**6, check=lambda: looks.append(1))
    assert found == wire_bytes_by_layer(plan, model, 50)
    assert len(looks) == 1

    def gone() -> None:
        raise KeyError("they have left")

    with pytest.raises(KeyError, match="they have left"):
        wire_bytes_by_layer(plan, model, 50, most=10**6, check=gone)


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("async-sgd", {}),
        ("async-sgd", {"own_writes": False}),
        ("softsync", {"contributions": 2}),
        ("bounded-staleness", {"bound": 2, "apply": "clock"}),
    ],
)
def test_a_job_whose_workers_drift_moves_the_last_answers_besides(
    strategy: str, options: dict[str, Any]
) -> None:
    """Every contribution is answered once, and at the end everybody gets all parameters once more."""
    model, steps = described("cnn"), 7
    plan = planned(strategy, model, 3, **options)
    expected = Counter[tuple[int, int, int]]()
    for one in declared(plan, model, 3):
        expected[one.source, one.destination, one.unit] += one.bytes * steps
    for unit in cut(plan, model):
        assert unit.shard is not None
        for rank in range(3):
            expected[shard_party(plan, 3, unit.shard), rank, unit.index] += unit.count * 4
    said = Counter[tuple[int, int, int]]()
    for one in declared(plan, model, 3, steps=steps):
        said[one.source, one.destination, one.unit] += one.bytes
    assert said == expected


@pytest.mark.parametrize(
    ("strategy", "options", "leaves"),
    [
        ("parameter-averaging", {"period": 3}, [{2, 5, 7}]),
        ("streaming-diloco", {"period": 4, "fragments": 2, "delay": 1}, [{3, 7}, {1, 5, 7}]),
    ],
)
def test_a_job_that_averages_moves_in_the_steps_that_end_with_an_average(
    strategy: str, options: dict[str, Any], leaves: list[set[int]]
) -> None:
    """Of eight steps: those of the period, of each fragment its own, and the last one."""
    model = described("cnn")
    plan = planned(strategy, model, 3, **options)
    fragment = {layer.layer: layer.fragment for layer in plan.layers}
    expected, said = Counter[tuple[int, int, int]](), Counter[tuple[int, int, int]]()
    for one in declared(plan, model, 3):
        times = len(leaves[fragment[one.layer]])
        expected[one.source, one.destination, one.unit] += one.bytes * times
    for one in declared(plan, model, 3, steps=8):
        said[one.source, one.destination, one.unit] += one.bytes
    assert said == expected
    assert set(fragment.values()) == set(range(len(leaves)))


DEDICATED = Servers(count=1, where="dedicated")


def served(model: ModelDescription, order: Order) -> list[LayerPlan]:
    return [LayerPlan(layer=layer.name, exchange="parameter-server", order=order) for layer in model.layers]


@pytest.mark.parametrize(("rank", "delay"), [("fifo", 4), ("priority", 2)])
def test_priorities_halve_the_delay_between_two_steps(rank: str, delay: int) -> None:
    """Papers 004, figure 4: a layer is computed in 1 unit of time and synchronized in 2, one after the other."""
    model = made_up((250_000,), (250_000,), (250_000,))
    order = Order(unit="layer", depart="when-ready", rank=rank, returns="push")
    plan = resolved(model, *served(model, order), servers=DEDICATED)
    rate = 8 * 1_000_000 / 2  # a layer's gradient takes two units, and its header a moment more
    network = partial(VirtualNetwork, rates_bps={("host0", "out"): rate})
    found = simulate(
        plan, model, workers=1, steps=2, policy=lambda: EveryStep(1), network=network,
        compute={layer.name: Compute(UNIT_NS, UNIT_NS) for layer in model.layers},
    )  # fmt: skip
    # The second step's forward pass begins when the first layer has come: 3 + 3 units of computation before.
    first = next(wait for wait in found.waited if wait.step == 1)
    assert first.layer == 0
    fragment = LEAST_FRAGMENT_BYTES * 8 / rate  # what has begun to leave is not taken back
    assert delay <= (first.end_ns - first.start_ns) / UNIT_NS <= delay + fragment + 0.01


@pytest.mark.parametrize(("unit", "size", "units"), [("layer", None, 10), ("slice", 250_000, 7)])
def test_slices_overlap_both_directions_with_updates(unit: str, size: int | None, units: int) -> None:
    """Papers 004, figure 6: the second of three layers takes thrice as long to send, to update and to return."""
    model = made_up((250_000,), (750_000,), (250_000,))
    order = Order(unit=unit, size=size, depart="when-ready", rank="fifo", returns="push")
    plan = resolved(model, *served(model, order), servers=DEDICATED)
    network = partial(VirtualNetwork, rate_bps=8 * 1_000_000)
    found = simulate(
        plan, model, workers=1, steps=1, policy=lambda: EveryStep(1), network=network,
        compute={layer.name: Compute(UNIT_NS, UNIT_NS) for layer in model.layers},
        update_ns=lambda unit: unit.count * UNIT_NS // 250_000,
    )  # fmt: skip
    began = min(each.start_ns for each in found.passed)
    ended = max(each.end_ns for each in found.passed)
    assert (ended - began) / UNIT_NS == pytest.approx(units, abs=0.01)


@pytest.mark.parametrize(
    ("policy", "stale"),
    [
        (lambda: EveryStep(3), {}),
        (lambda: BoundedStaleness(0, apply="clock"), {0: 12}),
        # The links are alike, so workers take turns: each finds the two others' updates since its own.
        (Asynchronous, {0: 1, 1: 1, 2: 10}),
    ],
)  # fmt: skip
def test_staleness_is_seen_on_the_virtual_clock(policy: Callable[[], Policy], stale: dict[int, int]) -> None:
    """Four steps of three workers, which all begin with the same version."""
    model = made_up((250_000,))
    order = Order(unit="layer", depart="when-ready", rank="fifo", returns="push")
    plan = resolved(model, *served(model, order), servers=DEDICATED)
    network = partial(VirtualNetwork, rate_bps=8 * 1_000_000)
    found = simulate(
        plan, model, workers=3, steps=4, policy=policy, network=network,
        compute={layer.name: Compute(UNIT_NS, UNIT_NS) for layer in model.layers},
    )  # fmt: skip
    counts: Counter[int] = Counter()
    for (unit, worker, staleness), count in found.applied.items():
        assert unit == 0
        assert worker in range(3)
        counts[staleness] += count
    assert counts == stale


@pytest.mark.parametrize("seed", range(5))
def test_peers_wait_for_nobody_and_only_for_a_link_that_is_always_late(seed: int) -> None:
    """Links of rates drawn at random carry a step's updates within a step, but for one worker's, which takes three: it
    alone waits, when as many of its updates as may have not left, and then for its link, step after step."""
    random, workers, steps, slow = Random(seed), 4, 12, seed % 4
    model = made_up((250_000,))
    order = Order(unit="layer", depart="when-ready", rank="fifo")
    plan = resolved(
        model,
        LayerPlan(layer="l0", exchange="peers", order=order),
        workers=workers,
        consistency=OwnPaceSettings(),
    )
    a_step = 3 * 8 * 1_000_000 / 2  # its updates for three peers, in a step of two units
    rates = {(f"host{rank}", "out"): a_step * random.uniform(1.05, 3) for rank in range(workers)}
    rates[f"host{slow}", "out"] = a_step / 3
    network = partial(VirtualNetwork, rates_bps=rates, latency_ns=random.randrange(UNIT_NS // 1000))
    found = simulate(
        plan, model, workers=workers, steps=steps, policy=Asynchronous, network=network,
        compute={layer.name: Compute(UNIT_NS, UNIT_NS) for layer in model.layers},
    )  # fmt: skip
    for rank in range(workers):
        begun = [found.begun_ns[rank, step] / UNIT_NS for step in range(steps + 1)]
        if rank != slow:
            assert begun == [2 * step for step in range(steps + 1)]
    waits = {wait.step for wait in found.waited}
    assert {wait.rank for wait in found.waited} == {slow}
    assert min(waits) > AHEAD
    assert waits == set(range(min(waits), steps + 1))
    # What comes by the slow link is the stalest.
    taken = Counter(rank for _, rank, _ in found.applied.elements())
    stale = [
        sum(staleness * count for (_, rank, staleness), count in found.applied.items() if rank == each)
        / taken[each]
        for each in range(workers)
    ]
    assert max(range(workers), key=stale.__getitem__) == slow
    assert found.moved == {key: steps * size for key, size in by_formula(plan, model, workers).items()}
