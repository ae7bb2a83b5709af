"""Rounds, played out: everyone ends with everyone's part once, in an order that does not depend on who is fast."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from engine.plan.rounds import (
    HALVING_DOUBLING,
    RING,
    TREE,
    Algorithm,
    Program,
    Programmer,
    ReceiveChunk,
    SendChunk,
    encoded_apart,
    halving_doubling,
    ring,
    tree,
)

each = pytest.mark.parametrize("programmer", [ring, tree, halving_doubling], ids=lambda p: p.__name__)


def played(programmer: Programmer, workers: int, count: int, seed: int = 0) -> list[list[str]]:
    """What every rank holds in the end, element by element, as the sum that it is. Ranks go on in a random order."""
    chance = random.Random(seed)
    programs = [programmer(rank, workers, count) for rank in range(workers)]
    at = [0] * workers
    held = [[str(rank)] * count for rank in range(workers)]
    under_way: dict[tuple[int, int], tuple[int, list[str]]] = {}

    def ready(rank: int) -> bool:
        if at[rank] == len(programs[rank]):
            return False
        step = programs[rank][at[rank]]
        return isinstance(step, SendChunk) or (rank, step.round) in under_way

    while able := [rank for rank in range(workers) if ready(rank)]:
        rank = chance.choice(able)
        step = programs[rank][at[rank]]
        at[rank] += 1
        here = slice(step.start, step.stop)
        if isinstance(step, SendChunk):
            assert (step.peer, step.round) not in under_way, "a round brings one message"
            under_way[step.peer, step.round] = rank, held[rank][here]
            continue
        origin, came = under_way.pop((rank, step.round))
        assert origin == step.peer
        assert len(came) == step.stop - step.start
        held[rank][here] = (
            [_sum(left, right) for left, right in zip(held[rank][here], came, strict=True)]
            if step.adds
            else came
        )
    assert at == [len(program) for program in programs], "somebody waits for ever"
    assert not under_way, "nobody takes it"
    return held


def _sum(left: str, right: str) -> str:
    """Addition commutes bitwise; it is its brackets that matter."""
    return f"({min(left, right)}+{max(left, right)})"


@each
@pytest.mark.parametrize("workers", [2, 3, 4, 5, 6, 7, 8, 13])
@pytest.mark.parametrize("count", [0, 1, 7, 64])
def test_everyone_ends_with_the_sum_of_all(programmer: Programmer, workers: int, count: int) -> None:
    held = played(programmer, workers, count)
    assert all(row == held[0] for row in held), "bitwise alike"
    for element in held[0]:
        ranks = element.replace("(", "").replace(")", "").split("+")
        assert sorted(map(int, ranks)) == list(range(workers))
    assert held == played(programmer, workers, count, seed=1), "whoever is fast"


def test_neighbours_are_added_first() -> None:
    assert played(tree, 4, 1)[3] == ["((0+1)+(2+3))"]
    assert played(tree, 3, 1)[0] == ["((0+1)+2)"]
    assert set(played(halving_doubling, 4, 8)[2]) == {"((0+1)+(2+3))"}


@each
def test_alone_there_is_nothing_to_do(programmer: Programmer) -> None:
    assert programmer(0, 1, 10) == ()


@pytest.mark.parametrize(
    ("programmer", "workers", "rounds"),
    [(ring, 8, 14), (tree, 8, 6), (tree, 5, 6), (halving_doubling, 8, 6), (halving_doubling, 6, 6)],
)
def test_the_number_of_rounds(programmer: Programmer, workers: int, rounds: int) -> None:
    programs: list[Program] = [programmer(rank, workers, 100) for rank in range(workers)]
    assert len({step.round for program in programs for step in program}) == rounds


@each
@pytest.mark.parametrize("workers", [2, 3, 6, 8])
def test_owners_keep_what_a_codec_made_of_each_sum_once(programmer: Programmer, workers: int) -> None:
    """Otherwise half precision would leave replicas that differ; and what draws at random makes another message each
    time."""
    owned = [0] * 64
    for rank in range(workers):
        spans = [
            (step.start, step.stop)
            for step in programmer(rank, workers, 64)
            if isinstance(step, SendChunk) and step.owned
        ]
        for start, stop in spans:
            for element in range(start, stop):
                owned[element] += 1
    assert owned == [1] * 64


@each
def test_nothing_is_added_to_a_part_that_was_given_away(programmer: Programmer) -> None:
    """It may still be leaving from that memory; only the finished sum, which needs it, may come in its place."""
    for workers in (3, 4, 7):
        for rank in range(workers):
            given: set[int] = set()
            for step in programmer(rank, workers, 60):
                span = range(step.start, step.stop)
                if isinstance(step, SendChunk):
                    given |= set(span)
                elif step.adds:
                    assert not set(span) & given


@each
@pytest.mark.parametrize("workers", [2, 3, 4, 5, 6, 7, 8, 13])
def test_a_finished_sum_may_be_written_where_it_belongs_as_soon_as_it_comes(
    programmer: Programmer, workers: int
) -> None:
    """Whoever is slow: when such a message leaves, its receiver has nothing left to do with these elements before its
    turn."""
    count = 64
    for seed in range(20):
        chance = random.Random(seed)
        slow = chance.randrange(workers)
        programs = [programmer(rank, workers, count) for rank in range(workers)]
        at = [0] * workers
        under_way: set[tuple[int, int]] = set()

        def ready(
            rank: int,
            at: list[int] = at,
            programs: list[Program] = programs,
            sent: set[tuple[int, int]] = under_way,
        ) -> bool:
            step = programs[rank][at[rank]] if at[rank] < len(programs[rank]) else None
            return step is not None and (isinstance(step, SendChunk) or (rank, step.round) in sent)

        while able := [rank for rank in range(workers) if ready(rank)]:
            rank = chance.choice([other for other in able if other != slow] or able)
            step = programs[rank][at[rank]]
            at[rank] += 1
            if not isinstance(step, SendChunk):
                continue
            under_way.add((step.peer, step.round))
            left = programs[step.peer][at[step.peer] :]
            turn = next(
                i for i, s in enumerate(left) if not isinstance(s, SendChunk) and s.round == step.round
            )
            receive = left[turn]
            if isinstance(receive, SendChunk) or receive.adds:
                continue
            for before in left[:turn]:
                assert before.stop <= receive.start or receive.stop <= before.start
        assert at == [len(program) for program in programs]


@pytest.mark.parametrize("algorithm", [RING, TREE, HALVING_DOUBLING], ids=lambda a: a.program.__name__)
@pytest.mark.parametrize("workers", [2, 3, 4, 5, 6, 7, 8, 13])
@pytest.mark.parametrize("count", [0, 1, 7, 64])
def test_who_completes_a_sum_is_who_encodes_it(algorithm: Algorithm, workers: int, count: int) -> None:
    """The parts of which it is said are those of the programs, and every finished message is made of whole ones."""
    programs = [algorithm.program(rank, workers, count) for rank in range(workers)]
    sends = [step for program in programs for step in program if isinstance(step, SendChunk)]
    spans = algorithm.completed(workers, count)
    assert {(s.start, s.stop) for s in sends if s.owned} == set(spans)
    for step in sends:
        apart = encoded_apart(spans, step.start, step.stop, finished=step.finished)
        assert sum(stop - start for start, stop in apart) == step.stop - step.start
        assert not step.owned or step.finished
    finished = Counter((s.peer, s.round, s.start, s.stop) for s in sends if s.finished)
    taken = Counter(
        (rank, step.round, step.start, step.stop)
        for rank, program in enumerate(programs)
        for step in program
        if isinstance(step, ReceiveChunk) and not step.adds
    )
    assert finished == taken
