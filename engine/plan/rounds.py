"""Rounds: who hands which part of a unit to whom, for the allreduces that are written out.

A program is what one worker does with one unit, in order. Sends do not wait; a receive waits until its message is
there, so that sums have one order and repeat bitwise. In a round a worker receives at most one message.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import takewhile
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class SendChunk:
    """Hand elements [start, stop) of the unit to `peer`."""

    round: int
    peer: int
    start: int
    stop: int
    finished: bool = False
    """They are sums of all ranks' parts."""
    owned: bool = False
    """They are finished sums that were completed here: what a lossy codec makes of them is kept here, too, so that
    all replicas stay equal."""


@dataclass(frozen=True, slots=True)
class ReceiveChunk:
    """Take elements [start, stop) of the unit from `peer`: add them to what is here, or put them in its place."""

    round: int
    peer: int
    start: int
    stop: int
    adds: bool


@dataclass(frozen=True, slots=True)
class NextPhase:
    """All sums of a phase are in their places: make of them what is summed next."""

    phase: int
    """The one that ends."""


Program: TypeAlias = tuple[SendChunk | ReceiveChunk | NextPhase, ...]
Programmer: TypeAlias = Callable[[int, int, int], Program]
"""(rank, workers, elements of the unit) -> that worker's program."""
Span: TypeAlias = tuple[int, int]
"""Elements [start, stop) of a unit."""


def encoded_spans(program: Program) -> list[Span]:
    """The parts of a unit that a worker encodes itself: all that it sends but what others have finished."""
    sends = (each for each in program if isinstance(each, SendChunk) and (each.owned or not each.finished))
    return list(dict.fromkeys((send.start, send.stop) for send in sends))


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """An allreduce in rounds."""

    program: Programmer
    rounds: Callable[[int], int]
    """(workers) -> how many rounds it has at most."""
    completed: Callable[[int, int], tuple[Span, ...]]
    """(workers, elements of the unit) -> the parts whose sums are completed by one rank each, in order. Each is encoded
    once, by that rank, and handed on as it is: to encode again what has been decoded would round it again."""


def chunk(count: int, parts: int, index: int) -> tuple[int, int]:
    """[start, stop) of part `index` when `count` elements are split into `parts` that differ by at most one."""
    return count * index // parts, count * (index + 1) // parts


def ring(rank: int, workers: int, count: int) -> Program:
    """Scatter-reduce in `workers` - 1 rounds, allgather in as many. In round k a rank sends chunk rank - k to the right
    and takes chunk rank - 1 - k from the left."""
    left, right = (rank - 1) % workers, (rank + 1) % workers
    program: list[SendChunk | ReceiveChunk] = []
    for k in range(2 * (workers - 1)):
        sent, taken = (chunk(count, workers, (rank - back) % workers) for back in (k, k + 1))
        program.append(SendChunk(k, right, *sent, finished=k >= workers - 1, owned=k == workers - 1))
        program.append(ReceiveChunk(k, left, *taken, adds=k < workers - 1))
    return tuple(program)


def tree(rank: int, workers: int, count: int) -> Program:
    """Reduce up the binomial tree whose root is rank 0, then broadcast down. A rank's parent is it without its lowest
    bit; its subtree are the ranks from it up to the next one with that bit."""
    depth = (workers - 1).bit_length()
    program: list[SendChunk | ReceiveChunk] = []
    back: list[SendChunk | ReceiveChunk] = []
    for k in range(depth):
        bit = 1 << k
        if rank & bit:
            program.append(SendChunk(k, rank - bit, 0, count))
            back.append(ReceiveChunk(2 * depth - 1 - k, rank - bit, 0, count, adds=False))
            break
        if rank + bit < workers:
            program.append(ReceiveChunk(k, rank + bit, 0, count, adds=True))
            first = rank == 0 and k == depth - 1  # what the root's first child gets goes on to the others
            back.append(SendChunk(2 * depth - 1 - k, rank + bit, 0, count, finished=True, owned=first))
    return (*program, *reversed(back))


def halving_doubling(rank: int, workers: int, count: int) -> Program:
    """Reduce-scatter by recursive halving, allgather by recursive doubling, among the largest power of two of ranks.
    Of the first 2 r ranks, r being those too many, the even ones hand all to their right neighbour beforehand and get
    the sums from it at the end."""
    depth = workers.bit_length() - 1
    extra = workers - (1 << depth)
    last = 2 * depth + 1
    if rank < 2 * extra and rank % 2 == 0:
        return SendChunk(0, rank + 1, 0, count), ReceiveChunk(last, rank + 1, 0, count, adds=False)
    position = rank // 2 if rank < 2 * extra else rank - extra
    program: list[SendChunk | ReceiveChunk] = []
    back: list[SendChunk | ReceiveChunk] = []
    if rank < 2 * extra:
        program.append(ReceiveChunk(0, rank - 1, 0, count, adds=True))
        back.append(SendChunk(last, rank - 1, 0, count, finished=True))
    start, stop = 0, count
    for k in range(depth):
        other = position ^ (1 << k)
        peer = 2 * other + 1 if other < extra else other + extra
        middle = (start + stop) // 2
        kept, given = (start, middle), (middle, stop)
        if position > other:
            kept, given = given, kept
        program.append(SendChunk(1 + k, peer, *given))
        program.append(ReceiveChunk(1 + k, peer, *kept, adds=True))
        back.append(ReceiveChunk(2 * depth - k, peer, *given, adds=False))
        back.append(SendChunk(2 * depth - k, peer, *kept, finished=True, owned=k == depth - 1))
        start, stop = kept
    return (*program, *reversed(back))


@cache
def _chunks(workers: int, count: int) -> tuple[Span, ...]:
    return tuple(chunk(count, workers, index) for index in range(workers))


def _whole(workers: int, count: int) -> tuple[Span, ...]:
    return ((0, count),)


@cache
def _halves(workers: int, count: int) -> tuple[Span, ...]:
    spans = [(0, count)]
    for _ in range(workers.bit_length() - 1):
        spans = [
            half
            for start, stop in spans
            for half in ((start, (start + stop) // 2), ((start + stop) // 2, stop))
        ]
    return tuple(spans)


RING = Algorithm(program=ring, rounds=lambda workers: 2 * (workers - 1), completed=_chunks)
TREE = Algorithm(program=tree, rounds=lambda workers: 2 * (workers - 1).bit_length(), completed=_whole)
HALVING_DOUBLING = Algorithm(
    program=halving_doubling, rounds=lambda workers: 2 * workers.bit_length(), completed=_halves
)


def in_phases(algorithm: Algorithm, rank: int, workers: int, counts: tuple[int, ...]) -> Program:
    """A worker's program for a unit whose sums are made in phases of so many numbers each, counted through as rounds
    are: the same in each phase, and between two of them what makes the next one's numbers."""
    program: list[SendChunk | ReceiveChunk | NextPhase] = []
    before = 0
    for phase, count in enumerate(counts):
        if phase:
            program.append(NextPhase(phase - 1))
        rounds = phase * algorithm.rounds(workers)
        program += [
            step
            if isinstance(step, NextPhase)
            else replace(step, round=step.round + rounds, start=step.start + before, stop=step.stop + before)
            for step in algorithm.program(rank, workers, count)
        ]
        before += count
    return tuple(program)


def completed_in_phases(algorithm: Algorithm, workers: int, counts: tuple[int, ...]) -> tuple[Span, ...]:
    """The parts whose sums are completed by one rank each, of all phases."""
    found: list[Span] = []
    before = 0
    for count in counts:
        found += [(start + before, stop + before) for start, stop in algorithm.completed(workers, count)]
        before += count
    return tuple(found)


def encoded_apart(completed: tuple[Span, ...], start: int, stop: int, *, finished: bool) -> tuple[Span, ...]:
    """In which parts elements [start, stop) are encoded: finished sums as they were completed, others as one."""
    if not finished:
        return ((start, stop),)
    first = bisect_left(completed, (start, start))
    return tuple(
        takewhile(lambda span: span[1] <= stop, (span for span in completed[first:] if span[0] < span[1]))
    )
