"""Servers under every mode of consistency: whatever comes in whatever order, nothing is applied twice or lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.consistency.asynchronous import Asynchronous
from engine.consistency.bounded_staleness import BoundedStaleness
from engine.consistency.every_step import EveryStep
from engine.consistency.policy import Policy
from engine.consistency.softsync import Softsync
from engine.protocol.home import Returns
from tests.engine.served_world import World

WORKERS = 3
MODES: dict[str, Callable[[int], Policy]] = {
    "every-step": EveryStep,
    "asynchronous": lambda workers: Asynchronous(),
    "staleness-aware": lambda workers: Asynchronous("staleness"),
    "asynchronous, going on": lambda workers: Asynchronous(own_writes=False),
    "softsync 1": lambda workers: Softsync(1, own_writes=True),
    "softsync 2": lambda workers: Softsync(min(2, workers)),
    "softsync all": Softsync,
    "softsync all, waiting": lambda workers: Softsync(workers, own_writes=True),
    "bounded 0": lambda workers: BoundedStaleness(0),
    "bounded 2": lambda workers: BoundedStaleness(2),
    "bounded 0 by clock": lambda workers: BoundedStaleness(0, apply="clock"),
    "bounded 1 by clock": lambda workers: BoundedStaleness(1, apply="clock"),
}
"""By the number of workers."""
TOGETHER = {"every-step", "softsync all, waiting", "bounded 0 by clock"}
"""Modes that are synchronous SGD: every update has all workers' contributions of one step, and is read by the next."""
BOUND = {"bounded 0": 0, "bounded 2": 2, "bounded 0 by clock": 0, "bounded 1 by clock": 1}
SIZE = {"asynchronous": 1, "staleness-aware": 1, "asynchronous, going on": 1, "softsync 1": 1, "softsync 2": 2,
        "softsync all": 5, "bounded 0": 1, "bounded 2": 1}  # fmt: skip
"""Contributions of an update, of as many workers at most."""
OWN = {"asynchronous", "staleness-aware", "softsync 1", "bounded 0", "bounded 2"} | TOGETHER
"""Modes in which a worker reads its own writes."""


def world(
    mode: str, returns: Returns, rank_order: bool, random: Random, *, workers: int = WORKERS, steps: int = 4
) -> World:
    return World(
        partial(MODES[mode], workers),
        workers=workers,
        units=3,
        steps=steps,
        returns=returns,
        rank_order=rank_order,
        random=random,
    )


returns = st.sampled_from(["push", "notify-pull", "deferred-pull"])


LOST = [mode for mode in MODES if mode not in TOGETHER | {"softsync all"}]
"""Modes in which those that are left go on without a worker that is lost."""


@pytest.mark.parametrize("mode", MODES)
@given(returns=returns, rank_order=st.booleans(), random=st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_every_contribution_is_applied_once_and_its_staleness_is_said(
    mode: str, returns: Returns, rank_order: bool, random: Random
) -> None:
    it = world(mode, returns, rank_order, random)
    it.run()
    all_were_applied_once(it, mode, rank_order)
    all_staleness_is_said(it, mode)


@pytest.mark.parametrize("mode", LOST)
@given(
    returns=returns, rank_order=st.booleans(), random=st.randoms(use_true_random=False), back=st.booleans()
)
@settings(max_examples=60, deadline=None)
def test_a_worker_that_is_lost_stops_nobody(
    mode: str, returns: Returns, rank_order: bool, random: Random, back: bool
) -> None:
    """And if it comes back, it contributes again; nothing of either life is applied twice."""
    check_that_nobody_is_stopped(mode, returns, rank_order, random, back)


def check_that_all_are_applied_once(mode: str, returns: Returns, rank_order: bool, random: Random) -> None:
    """One interleaving to its end."""
    it = world(mode, returns, rank_order, random)
    it.run()
    all_were_applied_once(it, mode, rank_order)


def all_were_applied_once(it: World, mode: str, rank_order: bool) -> None:
    """Of a world in which nothing can happen any more, and nobody was lost."""
    assert all(worker.done for worker in it.workers.values()), "deadlock"
    applied = [given for updates in it.updates.values() for update in updates for given in update]
    assert Counter(applied) == Counter(it.sent)
    assert not it.dropped
    assert not it.kept
    for update in (update for updates in it.updates.values() for update in updates[:-1]):
        if mode in SIZE:
            assert len(update) == min(SIZE[mode], len(it.workers))
        if mode in TOGETHER or "by clock" in mode:
            assert sorted(each.rank for each in update) == list(it.workers)
            assert len({each.step for each in update}) == 1
        if rank_order:
            assert update == sorted(update, key=lambda each: (each.rank, each.step))
    for rank, step, versions in it.begun:
        for unit, version in versions.items():
            read = {each for update in it.updates[unit][:version] for each in update}
            if mode in TOGETHER:
                assert version == step
            if mode in OWN:
                assert {each.step for each in read if each.rank == rank} == set(range(step))
            if mode in BOUND:
                assert {(r, s) for r in it.workers for s in range(step - BOUND[mode])} <= {
                    (each.rank, each.step) for each in read
                }


def is_said_of_every_update(it: World, mode: str) -> None:
    """An update names what it consists of, and how stale each of it is: the updates since what it was computed on."""
    for unit, updates in it.updates.items():
        for before, (update, named) in enumerate(zip(updates, it.named[unit], strict=True)):
            expected = [(each.rank, each.step, before - it.computed_on[each]) for each in update]
            assert sorted(named) == ([] if mode == "every-step" else sorted(expected))
            assert all(staleness >= 0 for _, _, staleness in named)
            divided = max(1, *(staleness for _, _, staleness in named)) if mode == "staleness-aware" else 1
            assert it.rates[unit][before] == 1 / divided


def all_staleness_is_said(it: World, mode: str) -> None:
    is_said_of_every_update(it, mode)
    stale = [staleness for updates in it.named.values() for update in updates for _, _, staleness in update]
    assert len(stale) == (0 if mode == "every-step" else len(it.sent))
    if mode in TOGETHER:
        assert not any(stale)
    if "by clock" in mode:
        assert max(stale) <= BOUND[mode], "all of a clock's contributions are one update"


def test_some_contributions_are_stale() -> None:
    """Else the test above would compare zeros."""
    for mode in ("asynchronous", "softsync 2", "bounded 1 by clock"):
        it = world(mode, "push", False, Random(1), steps=8)
        it.run()
        assert any(s for updates in it.named.values() for update in updates for _, _, s in update), mode


def check_that_nobody_is_stopped(
    mode: str, returns: Returns, rank_order: bool, random: Random, back: bool
) -> None:
    """One interleaving in which worker 1 is lost, and perhaps comes back."""
    it = world(mode, returns, rank_order, random, steps=5)
    lost_at, back_at = sorted(random.sample(range(150), 2))
    events = iter(range(10**9))

    def happens(world: World) -> None:
        now = next(events)
        if now == lost_at:
            world.lose(1)
        if now == back_at and back and not world.workers[1].alive:
            world.bring_back(1)

    it.run(happens)
    nobody_was_stopped(it, mode)


def nobody_was_stopped(it: World, mode: str) -> None:
    """Of a world in which nothing can happen any more, and somebody was lost."""
    assert all(worker.done for worker in it.workers.values() if worker.alive), "deadlock"
    applied = Counter(given for updates in it.updates.values() for update in updates for given in update)
    assert max(applied.values()) == 1
    assert max(Counter(each[:3] for each in applied).values()) == 1, "two lives contributed the same step"
    assert not applied.keys() & it.dropped.keys()
    assert applied.keys() | it.dropped.keys() == set(it.sent)
    assert not it.kept
    is_said_of_every_update(it, mode)
    for _, step, versions in it.begun if mode in BOUND else ():
        for unit, version in versions.items():
            later = {each for update in it.updates[unit][version:] for each in update}
            assert all(each.step >= step - BOUND[mode] for each in later), "somebody is too far ahead"
