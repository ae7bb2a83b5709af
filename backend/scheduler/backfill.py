"""Which jobs may start before their turn: those that leave the first one's start where it is.

**Rule.** The first job of a line that has to wait gets a reservation: the earliest moment at which it fits when every
job that runs ends as it is expected to, and the devices that it gets then. Another job may start before it if it ends
by that moment, or if it stays off the reserved devices. Of the devices that the first one may get, those that come free
last are reserved, so that what is free now stays for others as far as can be. **Where nothing is known.** A job whose
end nobody knows, or that has run for longer than was expected, is never expected to end. Where the first job waits for
such a one it has no reservation, and nobody starts before it. **Cost.** One walk over the running jobs by their ends
for each line in which somebody waits. **Loses**: a job that runs longer than it declared delays the first one; and
where one ends earlier, a long job beside the reserved devices may hold what the first one could have used, so that it
starts at its reservation and not before. **Source.** Lifka, "The ANL/IBM SP Scheduling System" (JSSPP 1995), as EASY;
Mu'alem and Feitelson, "Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling the IBM SP2
with Backfilling" (IEEE TPDS 2001), section 2. **Deviation**: devices have names, so that a reservation holds where they
differ; and jobs are not ended at the time that they declared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Fits = Callable[[Sequence[str], int], Sequence[str] | None]
"""Which devices a job gets (ids) that starts at a moment (Unix, ns), once the jobs with these ids have ended, who comes
free first in front; None where it does not fit then."""


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """What a job that waits will get."""

    at_ns: int
    """When (Unix), if every job ends as it is expected to."""
    devices: frozenset[str]
    """Ids of the devices that are kept for it."""


def reserve(
    fits: Fits, ends: Mapping[str, int | None], sizes: Mapping[str, int], short: int, now_ns: int
) -> Reservation | None:
    """When a job that does not fit now will, and on what. `ends`: when each job that runs is expected to end (Unix, ns;
    None: not known); `sizes`: how many devices come free with it; `short`: so many have to, at the least. None where
    nobody knows."""
    known = sorted((end, id_) for id_, end in ends.items() if end is not None and end >= now_ns)
    gone: list[str] = []
    for position, (end, id_) in enumerate(known):
        gone.append(id_)
        short -= sizes[id_]
        together = position + 1 < len(known) and known[position + 1][0] == end
        if short <= 0 and not together and (devices := fits(gone, end)) is not None:
            return Reservation(at_ns=end, devices=frozenset(devices))
    return None


def kept_from(reservation: Reservation | None, ends_ns: int | None) -> frozenset[str] | None:
    """The devices that a job which would end at `ends_ns` (None: not known) has to stay off; None where it may not
    start before the other at all."""
    if reservation is None:
        return None
    if ends_ns is not None and ends_ns <= reservation.at_ns:
        return frozenset()
    return reservation.devices
