"""Consistency: how far may workers drift from one another?"""

from engine.catalogue import Axis, Mechanism

_LATER = "only synchronous training is built yet"

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
        ),
        Mechanism(name="asynchronous", summary="A contribution is applied when it arrives.", missing=_LATER),
        Mechanism(
            name="softsync", summary="An update for every s contributions, whoever sent them.", missing=_LATER
        ),
        Mechanism(name="bounded-staleness", summary="No worker is more than s steps ahead.", missing=_LATER),
    ),
)
