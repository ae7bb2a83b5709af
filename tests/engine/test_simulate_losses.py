"""Workers that are lost and return, on the virtual clock: the machines that the runtime runs, with nobody started."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from random import Random
from typing import Any

import pytest

from engine.consistency.asynchronous import Asynchronous
from engine.consistency.every_step import EveryStep
from engine.consistency.own_pace import OwnPaceSettings
from engine.consistency.policies import policy_of
from engine.errors import UserError
from engine.plan.plan import LayerPlan, Order, Plan
from engine.plan.units import cut
from engine.protocol.instructions import Part
from engine.protocol.messages import Message
from engine.simulate.clock import VirtualClock
from engine.simulate.declared import AtOnce
from engine.simulate.happened import Compute, Simulated, WorkerLoss
from engine.simulate.network import VirtualNetwork
from engine.simulate.run import simulate
from engine.strategies import build_plan
from engine.transport.message import Header
from tests.plans import described, job, made_up, planned, resolved

UNIT_NS = 1_000_000
WORKERS, STEPS, BOUND = 4, 12, 2
MODES: list[tuple[str, dict[str, Any]]] = [
    ("async-sgd", {}),
    ("async-sgd", {"own_writes": False}),
    ("staleness-aware", {}),
    ("softsync", {"contributions": 2}),
    ("bounded-staleness", {"bound": BOUND}),
    ("bounded-staleness", {"bound": BOUND, "apply": "clock"}),
]


def plan_of(strategy: str, options: dict[str, Any], returns: str = "push", **choices: str) -> Plan:
    given = {"where": "dedicated", "servers": 2, "slice_size": 2000, **options}
    spec = job(strategy, WORKERS, given, overrides=[{"returns": returns, **choices}])
    found = build_plan(spec, described("cnn"))
    assert isinstance(found, Plan)
    return found


def run(plan: Plan, losses: list[WorkerLoss], *, seed: int = 0, **given: Any) -> Simulated:
    """Every worker of its own speed, over links of their own rates; all drawn from a seed."""
    random, model = Random(seed), described("cnn")
    slowed = {rank: random.choice([0.5, 1.0, 1.0, 3.0]) for rank in range(WORKERS)}
    rates = {
        (f"host{party}", way): random.uniform(0.2, 3) * 1e9
        for party in range(WORKERS + 2)
        for way in ("in", "out")
    }
    network = partial(VirtualNetwork, rates_bps=rates, latency_ns=random.randrange(UNIT_NS // 10))
    return simulate(
        plan, model, workers=WORKERS, steps=STEPS, policy=partial(policy_of, plan.consistency, WORKERS),
        network=given.pop("network", network), slowed=slowed, losses=losses,
        compute={layer.name: Compute(UNIT_NS // 5, UNIT_NS // 5) for layer in model.layers}, **given,
    )  # fmt: skip


def parts_of(found: Simulated) -> dict[int, list[tuple[int, Part]]]:
    """By unit: the version that each contribution made, and the contribution."""
    parts = defaultdict(list)
    for update in found.updated:
        parts[update.unit] += [(update.version, part) for part in update.parts]
    return parts


def check(plan: Plan, found: Simulated, losses: list[WorkerLoss]) -> None:
    """Nothing is applied twice; who stays has all of its steps applied; who is lost contributes, in each of its lives,
    steps without a gap up to the last that came; versions only grow; what is dropped has a reason."""
    lost = {loss.rank for loss in losses}
    for unit in cut(plan, described("cnn")):
        parts = parts_of(found)[unit.index]
        given = Counter((part.rank, part.step) for _, part in parts)
        assert set(given.values()) == {1}, "a contribution was applied twice"
        lives = defaultdict(list)
        for _, part in parts:
            lives[part.rank, part.incarnation].append(part.step)
        for rank in set(range(WORKERS)) - lost:
            assert sorted(lives[rank, 0]) == list(range(STEPS))
        starts = {(each.rank, each.incarnation): each.step for each in found.joined}
        for (rank, life), steps in lives.items():
            first = 0 if life == 0 else starts[rank, life]
            assert first is not None, "who was late contributes nothing"
            assert sorted(steps) == list(range(first, first + len(steps))), "some step in between is missing"
        for rank in lost:
            last = max((life for of_rank, life in starts if of_rank == rank), default=0)
            first = 0 if last == 0 else starts[rank, last]
            if (rank, STEPS) in found.begun_ns and first is not None and first < STEPS:
                missing = {(unit.index, rank, step) for step in range(max(lives[rank, last]) + 1, STEPS)}
                said = {each[:3] for each in found.dropped}
                assert missing <= said, "its last life contributes to the end, or it is said what was dropped"
        versions = [update.version for update in found.updated if update.unit == unit.index]
        assert versions == list(range(1, len(versions) + 1))
    late = {each.rank for each in found.joined if each.step is None}
    for rank in {each.rank for each in losses} - late:
        if max(each for each in losses if each.rank == rank).returns_ns is not None:
            assert (rank, STEPS) in found.begun_ns
    for dropped in found.dropped:
        assert dropped.reason == f"worker {dropped.rank} was lost"
        assert dropped.rank in lost


def check_bound(found: Simulated) -> None:
    """What is computed in step c has all that was applied of steps before c - BOUND."""
    for parts in parts_of(found).values():
        for version, part in parts:
            needed = [v for v, each in parts if each.step + BOUND < part.step]
            assert max(needed, default=0) <= version - 1 - part.staleness


@pytest.mark.parametrize(("strategy", "options"), MODES)
@pytest.mark.parametrize("returns", ["push", "notify-pull"])
def test_a_worker_dies_comes_back_and_contributes_to_the_end(
    strategy: str, options: dict[str, Any], returns: str
) -> None:
    plan = plan_of(strategy, options, returns)
    whole = run(plan, [])
    ends_ns = whole.begun_ns[3, STEPS]
    losses = [WorkerLoss(3, ends_ns // 3, ends_ns // 2)]
    found = run(plan, losses)
    check(plan, found, losses)
    (joined,) = found.joined
    assert (joined.rank, joined.incarnation) == (3, 1)
    assert joined.step is not None
    assert 1 <= joined.step < STEPS
    assert joined.at_ns >= ends_ns // 2
    for parts in parts_of(found).values():
        back = [part.step for _, part in parts if part.rank == 3 and part.incarnation == 1]
        assert sorted(back) == list(range(joined.step, STEPS))
        assert any(part.rank == 3 and part.incarnation == 0 for _, part in parts)
    assert found.begun_ns.keys() >= {(3, joined.step), (3, STEPS)}
    if strategy == "bounded-staleness":
        check_bound(found)


@pytest.mark.parametrize(("strategy", "options"), MODES)
@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(n, marks=pytest.mark.soak) for n in range(4, 60))]
)
def test_whenever_workers_are_lost_and_return(strategy: str, options: dict[str, Any], seed: int) -> None:
    """Times drawn at random: before the first push, amid a message, twice, soon after one another, near the end."""
    plan, random = plan_of(strategy, options), Random(seed)
    ends_ns = max(run(plan, [], seed=seed).begun_ns.values())
    times = sorted(random.sample(range(ends_ns), 4))
    losses = [WorkerLoss(1, times[0], times[1]), WorkerLoss(1, times[2], times[3] if seed % 3 else None)]
    second = random.randrange(ends_ns)
    if strategy != "softsync":  # which needs two
        losses.append(WorkerLoss(2, second, second + random.choice([1, UNIT_NS, ends_ns])))
    found = run(plan, losses, seed=seed)
    check(plan, found, losses)
    if strategy == "bounded-staleness":
        check_bound(found)


@pytest.mark.parametrize("strategy", ["async-sgd", "bounded-staleness"])
def test_who_has_joined_again_is_answered_with_whole_parameters_once(strategy: str) -> None:
    """It holds nothing that a difference could be added to. In the end all get them whole."""
    plan = plan_of(strategy, {"bound": BOUND} if strategy == "bounded-staleness" else {}, answers="int8")
    ends_ns = run(plan, []).begun_ns[3, STEPS]
    found = run(plan, [WorkerLoss(3, ends_ns // 3, ends_ns // 2)])
    (joined,) = found.joined
    answers = defaultdict(dict)
    for passed in found.passed:
        header = passed.header
        if header.kind == Message.ANSWER:
            answers[header.unit, passed.destination][header.queued_ns] = header.payload_bytes
    choices = {layer.layer: layer for layer in plan.layers}
    for unit in cut(plan, described("cnn")):
        whole = unit.count * 4
        less = unit.message_bytes(choices[unit.layers[0]].answer_encoding, 0, unit.count)
        assert less < whole
        back = [size for at_ns, size in sorted(answers[unit.index, 3].items()) if at_ns >= joined.at_ns]
        assert back[:3] == [whole, less, less]
        for rank in range(WORKERS):
            *sizes, last = (size for _, size in sorted(answers[unit.index, rank].items()))
            assert sizes.count(whole) == (1 if rank == 3 else 0)
            assert last == whole


@pytest.mark.parametrize("again_ns", [1, 500_000, 5 * UNIT_NS])
@pytest.mark.parametrize(("strategy", "options"), MODES)
def test_a_worker_that_is_lost_before_it_has_a_link_again_joins_once(
    strategy: str, options: dict[str, Any], again_ns: int
) -> None:
    plan = plan_of(strategy, options)
    network = partial(VirtualNetwork, rate_bps=1e9, latency_ns=3 * UNIT_NS)
    ends_ns = run(plan, [], network=network).begun_ns[3, STEPS]
    back_ns = ends_ns // 2
    second_ns = back_ns + 2 * UNIT_NS
    losses = [WorkerLoss(3, ends_ns // 3, back_ns), WorkerLoss(3, second_ns, second_ns + again_ns)]
    found = run(plan, losses, network=network)
    check(plan, found, losses)
    assert [(joined.rank, joined.incarnation) for joined in found.joined] == [(3, 2)]


def test_what_is_on_its_way_arrives_before_the_loss_is_heard_of_and_what_waits_never_does() -> None:
    clock, came, heard = VirtualClock(), [], []
    network = VirtualNetwork(
        clock,
        {0: "a", 1: "b"},
        lambda party, header: came.append((party, header.unit, clock.now_ns)),
        rate_bps=8e9,
        latency_ns=50,
    )

    def message(unit: int, size: int = 1000) -> Header:
        return Header(kind=Message.PUSH, origin=0, step=0, unit=unit, payload_bytes=size)

    network.send(0, 1, message(1))
    network.send(0, 1, message(2))
    network.send(1, 0, message(3))
    clock.at(500, lambda: network.lose(0, lambda other: heard.append((other, clock.now_ns))))
    clock.at(600, lambda: network.send(1, 0, message(4)))
    clock.at(700, lambda: network.meet(0, lambda other: network.send(other, 0, message(5))))
    clock.run()
    assert [(party, unit) for party, unit, _ in came] == [(1, 1), (0, 5)]
    assert [other for other, _ in heard] == [1]
    assert heard[0][1] > came[0][2]


def test_too_few_workers_for_an_update_are_named() -> None:
    plan = plan_of("softsync", {"contributions": 3})
    with pytest.raises(UserError, match=r"consistency\.contributions = 3: worker 2 was lost, .*: 2 left"):
        run(plan, [WorkerLoss(1, UNIT_NS), WorkerLoss(2, 2 * UNIT_NS)], network=AtOnce)


@pytest.mark.parametrize(
    ("strategy", "options", "losses", "rule"),
    [
        ("p3", {}, [WorkerLoss(1, 5)], "every worker waits for all others"),
        ("async-sgd", {"where": "beside", "servers": None}, [WorkerLoss(1, 5)], "are lost with the worker"),
        ("async-sgd", {}, [WorkerLoss(0, 5)], "ends with worker 0"),
        ("async-sgd", {}, [WorkerLoss(4, 5)], "workers 0 to 3"),
        ("async-sgd", {}, [WorkerLoss(1, 5, 5)], "returns after that"),
        ("async-sgd", {}, [WorkerLoss(1, 5), WorkerLoss(1, 9)], "lost while it is there"),
        ("async-sgd", {}, [WorkerLoss(1, 5, 10), WorkerLoss(1, 9)], "lost while it is there"),
    ],
)
def test_losses_that_no_job_survives_are_refused(
    strategy: str, options: dict[str, Any], losses: list[WorkerLoss], rule: str
) -> None:
    given = {"where": "dedicated", "servers": 2, **options}
    plan = planned(strategy, "cnn", WORKERS, **{k: v for k, v in given.items() if v is not None})
    policy = (lambda: EveryStep(WORKERS)) if strategy == "p3" else Asynchronous
    with pytest.raises(UserError, match=rule) as refused:
        simulate(plan, described("cnn"), workers=WORKERS, steps=2, policy=policy, losses=losses)
    assert refused.value.remedy


@pytest.mark.parametrize("seed", range(8))
def test_peers_go_on_without_one_and_end_with_the_same(seed: int) -> None:
    """Who is left has all of each other's updates, and of the lost one's what had come."""
    random = Random(seed)
    model = made_up((250_000,))
    order = Order(unit="layer", depart="when-ready", rank="fifo")
    layer = LayerPlan(layer="l0", exchange="peers", order=order)
    plan = resolved(model, layer, workers=WORKERS, consistency=OwnPaceSettings())
    losses = [WorkerLoss(2, random.randrange(STEPS * 2 * UNIT_NS))]
    found = simulate(
        plan, model, workers=WORKERS, steps=STEPS, policy=Asynchronous, losses=losses,
        network=partial(VirtualNetwork, rate_bps=random.uniform(2e9, 2e10), latency_ns=random.randrange(UNIT_NS)),
        compute={"l0": Compute(UNIT_NS, UNIT_NS)},
    )  # fmt: skip
    size = 250_000 * 4
    left = [rank for rank in range(WORKERS) if rank != 2]
    for rank in left:
        assert found.begun_ns.keys() >= {(rank, STEPS)}
        assert all(found.moved[rank, peer, 0] == STEPS * size for peer in left if peer != rank)
        assert found.moved[2, rank, 0] < STEPS * size or losses[0].at_ns >= found.begun_ns[2, STEPS]
    with pytest.raises(UserError, match="nobody hands over"):
        simulate(
            plan, model, workers=WORKERS, steps=STEPS, policy=Asynchronous, losses=[WorkerLoss(2, 5, 10)]
        )  # fmt: skip
