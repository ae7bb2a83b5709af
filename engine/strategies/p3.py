"""p3: Priority-based Parameter Propagation. Slices travel in the order in which the next forward pass needs them.

Update rule: as parameter-server, slice by slice. A slice's priority is the forward position of its layer,
0 first, stamped on the message and kept at all four queues: worker send, server receive, server send, worker
receive. Updated slices are pushed to all workers without notify and pull (papers 004, section 4.2).
Bytes as parameter-server: P3 moves the same data in a better order. Gains nothing where the network is fast
enough to hide everything, or so slow that it is always busy (papers 004, section 5.2).
Deviations: the public implementation orders two of the four queues; the paper's text asks for the worker's and
the server's consumer; we hold the order at all four. Within it an older step goes before a newer one, which the
paper leaves open: otherwise a worker that is ahead holds back what the others still wait for.
"""

from __future__ import annotations

from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.plan import Plan
from engine.strategies.base import Strategy
from engine.strategies.parameter_slicing import Options, sliced


def build(model: ModelDescription, cluster: Cluster, options: Options) -> Plan:
    """Slices, when ready, by forward position, pushed back."""
    return sliced("p3", "priority", model, cluster, options)


STRATEGY = Strategy(
    name="p3",
    summary="Slices travel by priority: what the next forward pass needs first goes first, at every queue.",
    loses_when="computation hides all communication anyway, or is so slow that no order helps.",
    source="papers 004 (P3), sections 3, 4.2 and 5",
    proof="exact",
    options=Options,
    build=build,
)
