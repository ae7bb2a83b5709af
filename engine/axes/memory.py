"""Memory: what happens to a layer's activations between forward and backward?

Traits, which the rules and the runtime ask for:
  as-is      nothing is done
  sequences  for recurrent layers only, which it cuts into pieces of time: sums have another order
"""

from engine.axes.memory_options import RecomputeOptions, SwapOptions, ThroughTimeOptions
from engine.catalogue import Axis, Mechanism

ACTIVATIONS = Axis(
    "activations",
    "What happens to the layer's activations?",
    (
        Mechanism(
            name="keep",
            summary="They stay on the device until backward has used them.",
            implementation="engine.state.computation:Kept",
            traits=frozenset({"as-is"}),
        ),
        Mechanism(
            name="swap",
            summary="Swapped out after forward, in before backward: to disk from the host, to the host from a device.",
            implementation="engine.memory.swap:Swap",
            options=SwapOptions,
        ),
        Mechanism(
            name="recompute",
            summary="Dropped after forward and computed again in backward.",
            implementation="engine.memory.recompute:Recompute",
            options=RecomputeOptions,
        ),
        Mechanism(
            name="through-time",
            summary="Of recurrent layers: run piece by piece, with few states stored, as a dynamic program says.",
            implementation="engine.memory.through_time:ThroughTime",
            options=ThroughTimeOptions,
            traits=frozenset({"sequences"}),
        ),
    ),
)
