"""recursive-halving-doubling: reduce-scatter by vector halving, allgather by vector doubling.

Update rule, for n = 2^d: in round k < d rank r and rank r xor 2^k exchange halves of the part that both still work on,
and each adds what it gets to the half that it keeps; then rank r holds the sum of 1/n of the unit, and the same
exchanges backwards, k = d-1 ... 0, hand out the sums. Every part is summed in a fixed order, pairs of neighbouring
ranks first, and so the result repeats bitwise.
Other n: with p the largest power of two and r = n - p, the even ones of the first 2 r ranks hand their gradients to
their right neighbours before, and get the sums after.
Cost: 2 log2(p) rounds, and two more unless n = p. A rank sends and receives 2 (p-1)/p |W|; the left one of a pair
|W|, the right one |W| more.
Loses where n is not a power of two: the right neighbours' ports carry half as much again as a ring's.
Source: Thakur, Rabenseifner and Gropp 2005 (allreduce of long messages; by Rabenseifner 2004). Deviation: pairs hand
over whole units, as MPICH does, where Rabenseifner halves that step, too.
"""

from __future__ import annotations

from engine.exchange.rounds import RoundsAllreduce
from engine.plan.rounds import HALVING_DOUBLING


class RecursiveHalvingDoubling(RoundsAllreduce):
    """Halves to ever farther partners, and doubled back."""

    algorithm = HALVING_DOUBLING
