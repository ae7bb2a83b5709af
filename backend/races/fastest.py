"""The criterion "fastest training" as the ranking has it: a race's page says one thing of who is fastest. Pure.

Only where all workers wait for one another: then a plan's samples per second follow from its time per step. Workers
that drift finish as many samples as they can, and the slowest one's step says little of them: there the criterion
compares samples per second by itself (`criteria.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from backend.races.criteria import Judged, Placed, Runs
from backend.races.ranking import Standing, around, geometric


def as_ranked(judged: Judged, standings: Sequence[Standing], runs: Runs) -> Judged:
    """`judged`, a criterion of speed, with the order, distances and certainties of `standings`, whose blocks are those
    of `runs`. As it was where the ranking compares others than it does, or where a speed is not known."""
    ranked = [one for one in standings if one.times_fastest is not None]
    speeds = {
        one.member: [runs[one.member][block].samples_per_s or 0.0 for block in one.over] for one in ranked
    }
    same = {one.member for one in judged.places} == speeds.keys()
    if not same or not all(all(values) for values in speeds.values()):
        return judged
    places = tuple(
        Placed(
            member=one.member,
            value=geometric(speeds[one.member]),
            interval=around(speeds[one.member]),
            behind=one.times_fastest if place else None,
            behind_interval=one.interval,
            worse=one.significant,
            unsure=one.unsure,
            missing=one.missing,
        )
        for place, one in enumerate(ranked)
    )
    return replace(judged, places=places, blocks=ranked[0].rounds if ranked else 0)
