"""Consistency: how far may workers drift from one another?

A mode is one file with a class: `settings` are its settings in a plan, `of(settings, workers)` makes the policy
(`engine/consistency/policy.py`) that they ask for, and `check(settings, workers)` raises UserError for settings that it
does not have.

Traits, which the compatibility rules ask for:
  drifts     workers do not wait for one another in every step: their parameters differ, and an update has some
             workers' contributions
  alone      workers train alone, and what they have changed travels
  in-turn    fragments of the model are averaged by themselves, each in a step of its own
Where workers drift and are alone, too, each takes what the others have changed whenever that comes.
"""

from engine.catalogue import Axis, Mechanism

CONSISTENCY = Axis(
    "consistency",
    "How far may workers drift?",
    (
        Mechanism(
            name="every-step",
            summary="All workers' contributions of a step are applied before any worker uses the result.",
            implementation="engine.consistency.every_step:EveryStep",
        ),
        Mechanism(
            name="average",
            summary="Workers train alone and average every k steps.",
            implementation="engine.consistency.average:Average",
            traits=frozenset({"alone"}),
        ),
        Mechanism(
            name="streaming",
            summary="Fragments of the model are averaged in turn, while training goes on.",
            implementation="engine.consistency.streaming:Streaming",
            traits=frozenset({"alone", "in-turn"}),
        ),
        Mechanism(
            name="asynchronous",
            summary="A contribution is applied when it arrives.",
            implementation="engine.consistency.asynchronous:Asynchronous",
            traits=frozenset({"drifts"}),
        ),
        Mechanism(
            name="own-pace",
            summary="Workers train at their own pace, and take one another's updates as they come.",
            implementation="engine.consistency.own_pace:OwnPace",
            traits=frozenset({"drifts", "alone"}),
        ),
        Mechanism(
            name="softsync",
            summary="An update for every s contributions, whoever sent them.",
            implementation="engine.consistency.softsync:Softsync",
            traits=frozenset({"drifts"}),
        ),
        Mechanism(
            name="bounded-staleness",
            summary="No worker is more than s steps ahead of the slowest.",
            implementation="engine.consistency.bounded_staleness:BoundedStaleness",
            traits=frozenset({"drifts"}),
        ),
    ),
)
