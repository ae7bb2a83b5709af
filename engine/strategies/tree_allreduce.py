"""tree-allreduce: allreduce in few rounds, by a binomial tree or by recursive halving and doubling, during backward.

Update rule: every worker ends with sum_i g_i and updates its own replica. A bucket leaves as soon as the last of its
gradients is there, and the next forward pass of a layer waits only for its own bucket.
Bytes per step over all links: 2 (n-1) |W| for either, as a ring; but a tree's root sends and receives
ceil(log2 n) |W|, a rank of recursive halving and doubling 2 (n-1)/n |W| where n is a power of two (other n: see the
exchange). Rounds per bucket: 2 ceil(log2 n) and 2 log2 n, where a ring needs 2 (n-1).
Sums have one order, so results repeat bitwise; it is that of the tree, not 0, 1, 2, ...
Source and deviations: Thakur, Rabenseifner and Gropp 2005; `engine/exchange/tree_allreduce.py` and
`engine/exchange/recursive_halving_doubling.py` say more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.plan import Plan
from engine.strategies.base import Strategy
from engine.strategies.options import GradientRoundsOptions

_EXCHANGES = {"tree": "tree-allreduce", "recursive-halving-doubling": "recursive-halving-doubling"}


@dataclass(frozen=True, kw_only=True)
class Options(GradientRoundsOptions):
    """Options of the allreduces in few rounds."""

    algorithm: Literal["tree", "recursive-halving-doubling"] = "tree"
    """`tree`: reduce to one root and broadcast, least rounds of large messages; `recursive-halving-doubling`: a ring's
    bytes in few rounds, best where the number of workers is a power of two."""


def build(model: ModelDescription, cluster: Cluster, options: Options) -> Plan:
    """Buckets through the chosen algorithm, when ready."""
    return options.plan(
        "tree-allreduce",
        model,
        cluster,
        exchange=_EXCHANGES[options.algorithm],
        depart="when-ready",
        rank=options.rank,
    )


STRATEGY = Strategy(
    name="tree-allreduce",
    summary="Reduces up a binomial tree and broadcasts down, or halves and doubles recursively: few rounds per bucket.",
    loses_when="bytes cost more than rounds: a tree's root carries log2(n) times the model each way.",
    source="Thakur, Rabenseifner and Gropp 2005",
    proof="exact",
    options=Options,
    build=build,
)
