"""tree-allreduce: reduce up a binomial tree, broadcast down it.

Update rule: with d = ceil(log2 n), in round k < d every rank with bit k as its lowest one hands its sum to the rank
without that bit, which adds it; rank 0 then holds sum_i g_i, and d further rounds hand it down the same edges. A
parent adds its children in the order of their ranks, so that the sum is that of neighbouring ranges of ranks,
((0+1)+(2+3))+..., whoever comes first, and repeats bitwise.
Cost: 2 ceil(log2 n) rounds. 2 (n-1) |W| bytes in all, as the ring; but every one of them at full size, and
ceil(log2 n) |W| in and out of the root's port. Memory: a child that comes before its turn is kept until then.
Loses to ring-allreduce and recursive-halving-doubling where bytes matter more than rounds, which is soon.
Source: the binomial reduce and broadcast of Thakur, Rabenseifner and Gropp 2005. Deviation: every unit has the same
root; units are not segmented further, because they are buckets and slices already and follow one another.
"""

from __future__ import annotations

from engine.exchange.rounds import RoundsAllreduce
from engine.plan.rounds import TREE


class TreeAllreduce(RoundsAllreduce):
    """Up to rank 0, and down again."""

    algorithm = TREE
