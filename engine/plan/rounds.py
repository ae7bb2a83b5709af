"""Rounds: who hands which part of a unit to whom, for the allreduces that are written out.

A program is what one worker does with one unit, in order. Sends do not wait; a receive waits until its message is
there, so that sums have one order and repeat bitwise. In a round a worker receives at most one message.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class SendChunk:
    """Hand elements [start, stop) of the unit to `peer`."""

    round: int
    peer: int
    start: int
    stop: int
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


Program: TypeAlias = tuple[SendChunk | ReceiveChunk, ...]
Programmer: TypeAlias = Callable[[int, int, int], Program]
"""(rank, workers, elements of the unit) -> that worker's program."""


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
        program.append(SendChunk(k, right, *sent, owned=k == workers - 1))
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
            back.append(SendChunk(2 * depth - 1 - k, rank + bit, 0, count, owned=rank == 0))
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
        back.append(SendChunk(last, rank - 1, 0, count))
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
        back.append(SendChunk(2 * depth - k, peer, *kept, owned=k == depth - 1))
        start, stop = kept
    return (*program, *reversed(back))
