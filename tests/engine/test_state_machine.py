"""Every exchange of ours with every mode of consistency that it can have, as a state machine: hypothesis chooses what
happens next, also which party's messages are held up, who is lost and who returns, and makes a failure smaller.

`make soak` tries more than ten thousand interleavings, `make test` a few of each combination.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from engine.axes.consistency import CONSISTENCY
from engine.axes.exchange import EXCHANGE
from engine.consistency.every_step import EveryStep
from engine.protocol.home import Returns
from tests.engine import peers_world, served_world, unwaited_world
from tests.engine import test_protocol_peers as peers
from tests.engine import test_protocol_served as served
from tests.engine import test_protocol_unwaited as unwaited

AVERAGES = ("average", "streaming")
RETURNS: tuple[Returns, ...] = ("push", "notify-pull", "deferred-pull")
FEW, MANY = 5, 200
MOST_LOST = 9
RULES = 80
"""That hypothesis chooses in one interleaving; what is left happens in an order drawn from a seed."""
NUMBER = st.integers(0, 2**16)
World = served_world.World | peers_world.World | unwaited_world.World


@dataclass(frozen=True, kw_only=True)
class Combination:
    """An exchange with a mode and, of a server, how answers return."""

    exchange: str
    mode: str
    """Of a served one: with its settings, as `test_protocol_served.MODES` names it."""
    returns: Returns | None = None

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.exchange, self.mode, self.returns)))

    @property
    def averages(self) -> bool:
        return self.mode in AVERAGES

    @property
    def most_lost(self) -> int:
        """How many losses of workers its job may go on after."""
        if self.exchange == "peers":
            return MOST_LOST
        if self.returns is None or self.mode not in (*served.LOST, "bounded 0 by clock"):
            return 0
        return MOST_LOST

    def world(self, workers: int, rank_order: bool, random: Random) -> World:
        if self.exchange == "peers":
            return unwaited.world(workers, random)
        if self.returns is None:
            return peers_world.World(
                lambda rank: peers.EXCHANGES[self.exchange](rank, workers),
                peers.PHASES,
                workers=workers,
                steps=peers.STEPS,
                meeting=peers.MEETINGS[self.mode](workers),
                fragments=2,
                random=random,
            )
        if not self.averages:
            return served.world(self.mode, self.returns, rank_order, random, workers=workers)
        return served_world.World(
            partial(EveryStep, workers),
            workers=workers,
            units=3,
            steps=peers.STEPS,
            returns=self.returns,
            rank_order=rank_order,
            random=random,
            meeting=peers.MEETINGS[self.mode](workers),
            fragments=2,
        )


COMBINATIONS = [
    Combination(exchange="peers", mode="own-pace"),
    *(
        Combination(exchange=exchange, mode=mode)
        for exchange in peers.EXCHANGES
        for mode in peers.MEETINGS
        if exchange != "factors" or mode == "every-step"  # they have no differences of parameters
    ),
    *(
        Combination(exchange="server", mode=mode, returns=returns)
        for mode in (*served.MODES, *AVERAGES)
        for returns in RETURNS
        if (mode, returns) != ("streaming", "deferred-pull")  # that asks for all layers, which leave in turn
    ),
]


class Interleaving(RuleBasedStateMachine):
    """One world. Rules say what happens next, invariants what holds at every moment, `teardown` what holds when
    nothing can happen any more."""

    def __init__(self, combination: Combination) -> None:
        super().__init__()
        self.combination = combination
        self.held_up: set[int] = set()
        self.lost = 0
        self.applied: Counter[tuple[int, int, int]] = Counter()
        """(unit, rank, step) of what updates have."""
        self.seen: Counter[int] = Counter()
        """By unit: updates that the invariants have looked at."""
        self.furthest: Counter[int] = Counter()
        """By unit: the latest step that any worker had begun when they looked."""
        self.looked = 0
        self.summed: set[tuple[int, int, int]] = set()

    @initialize(
        workers=st.integers(1, 5), rank_order=st.booleans(), seed=NUMBER, losses_from=st.integers(0, 8)
    )
    def a_job_begins(self, workers: int, rank_order: bool, seed: int, losses_from: int) -> None:
        """`losses_from`: how many steps must have begun before anybody is lost: else most are lost at once."""
        self.rank_order, self.losses_from = rank_order, losses_from
        self.world = self.combination.world(workers, rank_order, Random(seed))

    def coming(
        self,
    ) -> list[served_world.Travelling] | list[peers_world.Travelling] | list[unwaited_world.Travelling]:
        return [each for each in self.world.coming() if not {each.source, each.peer} & self.held_up]  # type: ignore[return-value]

    @precondition(lambda self: self.coming())
    @rule(number=NUMBER)
    def a_message_arrives(self, number: int) -> None:
        coming = self.coming()
        self.world.arrives(coming[number % len(coming)])  # type: ignore[arg-type]

    @precondition(lambda self: self.world.leaving())
    @rule(number=NUMBER)
    def a_message_leaves(self, number: int) -> None:
        leaving = self.world.leaving()
        self.world.left(*leaving[number % len(leaving)])  # type: ignore[union-attr]

    @precondition(lambda self: self.world.able())
    @rule(number=NUMBER)
    def a_worker_goes_on(self, number: int) -> None:
        able = self.world.able()
        self.world.works(able[number % len(able)])

    @rule(number=NUMBER)
    def a_party_is_held_up(self, number: int) -> None:
        """Or all who were are not any more."""
        parties = [*self.world.workers, *getattr(self.world, "servers", ())]
        chosen = number % (len(parties) + 1)
        self.held_up = self.held_up | {parties[chosen]} if chosen < len(parties) else set()

    @precondition(lambda self: self.lost < self.combination.most_lost and len(self.losable()) > 0)
    @rule(number=NUMBER)
    def a_worker_is_lost(self, number: int) -> None:
        ranks = self.losable()
        self.losing.lose(ranks[number % len(ranks)])
        self.lost += 1

    @precondition(lambda self: self.news())
    @rule(number=NUMBER)
    def a_server_hears_of_a_loss_or_a_return(self, number: int) -> None:
        """Another one may hear of it later."""
        news = self.news()
        self.served.hears(news[number % len(news)])

    @precondition(
        lambda self: self.lost > 0 and isinstance(self.world, served_world.World) and len(self.gone()) > 0
    )
    @rule(number=NUMBER)
    def a_worker_returns(self, number: int) -> None:
        gone = self.gone()
        self.served.bring_back(gone[number % len(gone)])

    @property
    def served(self) -> served_world.World:
        assert isinstance(self.world, served_world.World)
        return self.world

    @property
    def losing(self) -> served_world.World | unwaited_world.World:
        assert not isinstance(self.world, peers_world.World)
        return self.world

    def news(self) -> list[served_world.News]:
        """Of a server that is not held up."""
        if not isinstance(self.world, served_world.World):
            return []
        return [each for each in self.world.heard() if each.server not in self.held_up]

    def gone(self) -> list[int]:
        return [rank for rank, worker in self.served.workers.items() if not worker.alive]

    def losable(self) -> list[int]:
        """Those without whom enough are left, from the moment on at which any may be lost."""
        if len(self.losing.begun) < self.losses_from:
            return []
        if isinstance(self.losing, unwaited_world.World):
            alive = [rank for rank, worker in self.losing.workers.items() if worker.alive]
            return alive if len(alive) > 1 else []
        workers = self.losing.workers.items()
        spare = sum(worker.here for _, worker in workers) - max(1, self.losing.policy.least_workers)
        return [rank for rank, worker in workers if worker.alive and spare >= worker.here]

    @invariant()
    def what_is_applied_is_so_once_and_within_the_bound(self) -> None:
        if not isinstance(self.world, served_world.World):
            return
        bound = served.BOUND.get(self.combination.mode)
        for unit, updates in self.world.updates.items():
            for update in updates[self.seen[unit] :]:
                assert update, "an update has contributions"
                for given in update:
                    self.applied[given[:3]] += 1
                    assert self.applied[given[:3]] == 1, "a contribution was applied twice"
                    assert given not in self.world.dropped, "what was dropped was applied"
                    assert bound is None or given.step >= self.furthest[unit] - bound, "too far ahead"
            self.seen[unit] = len(updates)
        for _, step, _ in self.world.begun[self.looked :]:
            for unit in self.world.units:
                self.furthest[unit] = max(self.furthest[unit], step)
        self.looked = len(self.world.begun)

    @invariant()
    def what_peers_add_they_add_once(self) -> None:
        if isinstance(self.world, unwaited_world.World):
            unwaited.check_that_nothing_is_added_twice(self.world)

    @invariant()
    def what_has_been_summed_is_everybodys(self) -> None:
        if isinstance(self.world, peers_world.World):
            for rank, unit, step in self.world.sums.keys() - self.summed:
                everybody = {(each, step): 1 for each in range(len(self.world.workers))}
                assert self.world.sums[rank, unit, step] == [everybody] * peers.COUNTS[unit]
                self.summed.add((rank, unit, step))

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.run()
        if isinstance(self.world, peers_world.World):
            peers.all_were_summed_once(self.world)
        elif isinstance(self.world, unwaited_world.World):
            unwaited.all_have_all(self.world)
        elif self.combination.averages:
            self.all_were_averaged_once(self.world)
        elif self.lost:
            served.nobody_was_stopped(self.world, self.combination.mode)
        else:
            served.all_were_applied_once(self.world, self.combination.mode, self.rank_order)

    def all_were_averaged_once(self, it: served_world.World) -> None:
        """Every update is everybody's difference of one step, and who needs an average has it."""
        assert all(worker.done for worker in it.workers.values()), "deadlock"
        assert not it.dropped
        assert not it.kept
        for unit in it.units:
            part = unit // 2 % it.fragments
            left = [step for step in range(it.steps) if it.meeting.leaves(part, step)]
            found = [sorted((each.step, each.rank) for each in update) for update in it.updates[unit]]
            assert found == [[(step, rank) for rank in it.workers] for step in left]
            for _, step, versions in it.begun:
                arrived = [at for now in range(step) if (at := it.meeting.arrives(part, now)) is not None]
                come = sum(1 for each in left if arrived and each <= max(arrived))
                assert come <= versions.get(unit, 0) <= sum(1 for each in left if each < step)


@pytest.mark.parametrize("each", [FEW, pytest.param(MANY, marks=pytest.mark.soak)], ids=["few", "many"])
@pytest.mark.parametrize("combination", COMBINATIONS, ids=str)
def test_nothing_is_lost_or_applied_twice_and_nobody_waits_for_ever(
    combination: Combination, each: int
) -> None:
    machine: Callable[[], Interleaving] = partial(Interleaving, combination)
    quietly = settings(
        max_examples=each,
        stateful_step_count=RULES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=quietly)  # type: ignore[no-untyped-call]


def test_ten_thousand_interleavings_are_tried() -> None:
    assert MANY * len(COMBINATIONS) >= 10_000


def test_every_mode_is_tried_with_every_exchange_that_can_have_it() -> None:
    """By traits, as the rules refuse (`engine/plan/averaging.py`, `drift_rules.py`)."""
    able = {
        (row.rounds, "server" in row.traits, "gathered" in row.traits, "unwaited" in row.traits, mode.name)
        for row in EXCHANGE
        for mode in CONSISTENCY
        if row.available
        and "counted" in row.traits
        and "nothing" not in row.traits
        and ("unwaited" in row.traits) == ({"drifts", "alone"} <= mode.traits)
        and ("unwaited" in row.traits or "drifts" not in mode.traits or "server" in row.traits)
        and ("unwaited" in row.traits or "alone" not in mode.traits or "sums" in row.traits)
    }
    modes = {
        name: row.name
        for name, make in served.MODES.items()
        for row in CONSISTENCY
        if row.load() is type(make(3))
    }
    rounds = {"ring": "RING", "tree": "TREE", "halving-doubling": "HALVING_DOUBLING"}
    tried = {
        (
            f"engine.plan.rounds:{rounds[one.exchange]}" if one.exchange in rounds else None,
            one.returns is not None,
            one.exchange == "factors",
            one.exchange == "peers",
            modes.get(one.mode, one.mode),
        )
        for one in COMBINATIONS
    }
    assert tried == able
