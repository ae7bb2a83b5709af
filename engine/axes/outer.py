"""Outer optimizers: how is the step that workers have averaged taken?

Trait: `momentum`, it does not work without one.
"""

from engine.catalogue import Axis, Mechanism

OUTER = Axis(
    "outer",
    "How is the averaged step taken?",
    (
        Mechanism(
            name="sgd",
            summary="Times a rate, with momentum where there is one; rate 1 alone is plain averaging.",
            implementation="engine.consistency.outer.sgd:OuterSgd",
        ),
        Mechanism(
            name="nesterov",
            summary="With Nesterov's momentum, as DiLoCo does.",
            implementation="engine.consistency.outer.nesterov:OuterNesterov",
            traits=frozenset({"momentum"}),
        ),
    ),
)
