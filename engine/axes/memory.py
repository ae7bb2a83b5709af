"""Memory: what happens to a layer's activations between forward and backward?"""

from engine.catalogue import Axis, Mechanism

ACTIVATIONS = Axis(
    "activations",
    "What happens to the layer's activations?",
    (
        Mechanism(
            name="keep",
            summary="They stay on the device until backward has used them.",
            implementation="engine.runtime.trainer:Trainer",
        ),
        Mechanism(
            name="swap",
            summary="Swapped out to host memory after forward, in before backward.",
            missing="memory optimizations are not built yet",
        ),
        Mechanism(
            name="recompute",
            summary="Dropped after forward and computed again in backward.",
            missing="memory optimizations are not built yet",
        ),
    ),
)
