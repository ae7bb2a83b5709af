"""Peers that wait for nobody: whatever comes in whatever order, and whoever is lost, each ends with every update of
those who are left, once."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.protocol.errors import OutOfStepError
from engine.protocol.instructions import Add, Advance, Content, Drop, Part, Send
from engine.protocol.messages import Message
from engine.protocol.peers import Peers
from tests.engine.unwaited_world import AHEAD, World

COUNTS = {0: 1, 1: 5, 2: 7}
STEPS = 5


def world(workers: int, random: Random) -> World:
    return World(COUNTS, workers=workers, steps=STEPS, random=random)


def check_that_nothing_is_added_twice(it: World) -> None:
    """At any moment; and nobody is far ahead of what has left."""
    for rank, worker in it.workers.items():
        for unit in it.units:
            everything = worker.held[unit] + worker.coming[unit]
            assert set(everything.values()) <= {1}
        waiting = Counter((each.peer, each.unit) for each in worker.leaving if each.kind == Message.UPDATE)
        assert max(waiting.values(), default=0) <= AHEAD + 1, f"worker {rank} does not wait for its links"


def all_have_all(it: World) -> None:
    """Of a world in which nothing can happen any more."""
    left = [rank for rank, worker in it.workers.items() if worker.alive]
    assert all(it.workers[rank].done for rank in left), "deadlock"
    wanted = {(origin, step) for origin in left for step in range(STEPS)}
    for rank in left:
        worker = it.workers[rank]
        assert not worker.leaving
        assert not any(worker.coming.values())
        for held in (worker.held[unit] for unit in it.units):
            assert set(held.values()) == {1}
            assert {each for each in held if each[0] in left} == wanted
            for lost in it.workers.keys() - set(left):
                steps = sorted(step for origin, step in held if origin == lost)
                assert steps == list(range(len(steps))), "of a lost worker the end is missing"
        heard = worker.machine.contributed()
        assert all(heard[peer] == STEPS for peer in left if peer != rank)


@given(workers=st.integers(1, 5), random=st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_everybody_ends_with_everybodys_updates(workers: int, random: Random) -> None:
    it = world(workers, random)
    it.run()
    all_have_all(it)


@given(
    workers=st.integers(2, 5),
    losses=st.lists(st.integers(0, 300), min_size=1, max_size=3),
    random=st.randoms(use_true_random=False),
)
@settings(max_examples=40, deadline=None)
def test_who_is_lost_holds_up_nobody(workers: int, losses: list[int], random: Random) -> None:
    it = world(workers, random)
    moved = 0
    while moves := it._moves():
        alive = [rank for rank, worker in it.workers.items() if worker.alive]
        if moved in losses and len(alive) > 1:
            it.lose(random.choice(alive))
        else:
            random.choice(moves)()
        check_that_nothing_is_added_twice(it)
        moved += 1
    all_have_all(it)


def test_a_worker_that_nobody_hears_of_goes_on_until_its_links_are_full() -> None:
    """And not with the first step, nor for ever: what does not leave fills memory."""
    it = world(3, Random(1))
    for _ in range(100):
        if 0 in it.able():
            it.works(0)
    assert it.workers[0].step == AHEAD + 1
    assert it.workers[0].machine.awaited(0) == [1, 2]
    while it.leaving():
        it.left(*it.leaving()[0])
    assert 0 in it.able()


def peers() -> Peers:
    return Peers(rank=1, workers=3, counts={0: 4}, ahead=0)


def test_what_is_said_step_by_step() -> None:
    machine = peers()
    update = Send((2, 0), Message.UPDATE, 0, 0, Content.GRADIENT, stop=4)
    assert machine.ready(0, 0) == [update]
    assert machine.sent(0, 2) == []
    assert machine.awaited(0) == [0]
    assert machine.sent(0, 0) == [Advance(0, 1)]
    assert machine.arrived(0, 0, 2) == [Add(0, 2, 0, stop=4)]
    assert machine.finished(1) == [Send((2, 0), Message.FINISH, 0, 0)]
    assert machine.peer_finished(0, 2, 1) == []
    assert machine.awaited(0) == [2, 0], "what has come is not there before it has been added"
    assert machine.added(0, 0, 2, 0) == []
    assert machine.awaited(0) == [0]
    assert machine.contributed() == {2: 1, 0: 0}
    assert machine.lost(0) == [Advance(0, 2)]


def test_an_update_is_as_stale_as_there_are_more_updates_in_front_of_it_than_it_knew() -> None:
    machine = peers()
    for step in range(
        2
    ):  # worker 2 is ahead: when it computed its second update it had its own first one only
        machine.arrived(0, step, 2)
        machine.added(0, step, 2, step)
    assert machine.ready(0, 0) == [Send((2, 0), Message.UPDATE, 0, 0, Content.GRADIENT, stop=4, version=0)]
    assert machine.taken(0) == [Part(2, 0, 1), Part(2, 1, 1)]
    assert machine.taken(0) == []
    machine.arrived(0, 0, 0)
    machine.added(0, 0, 0, 9)  # it knew more than there is here
    assert machine.taken(0) == [Part(0, 0, 0)]
    (update, *_) = machine.ready(0, 1)
    assert isinstance(update, Send)
    assert update.version == 4


def test_who_is_out_of_step_is_named() -> None:
    machine = peers()
    machine.arrived(0, 0, 2)
    for step in (0, 2):
        with pytest.raises(
            OutOfStepError, match=f"worker 2 sent its update {step} of unit 0, of which 1 have come"
        ):
            machine.arrived(0, step, 2)
    machine.lost(2)
    (dropped,) = machine.arrived(0, 1, 2)
    assert isinstance(dropped, Drop)
    assert dropped.reason == "worker 2 was lost"


def test_alone_nobody_is_waited_for() -> None:
    machine = Peers(rank=0, workers=1, counts={0: 4})
    assert machine.ready(0, 0) == [Advance(0, 1)]
    assert machine.finished(1) == [Advance(0, 2)]
