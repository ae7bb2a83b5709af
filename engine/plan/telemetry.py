"""TelemetrySpec: of which steps single events are kept. Totals are kept for every step, always."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.catalogue import STRICT
from engine.errors import UserError


@dataclass(frozen=True, kw_only=True)
class TelemetrySpec:
    """What is kept of the events; totals are kept for every step."""

    __pydantic_config__ = STRICT

    detail: Literal["chosen", "all"] = "chosen"
    """`chosen`: single events of the steps that the fields below say, and of those that a person asks to record.
    `all`: of every step."""
    first: int = 5
    """So many of the first steps."""
    few: int = 3
    """So many steps in a row, to see how one leads into the next, of every so many (the field below). 0: none."""
    every: int = 100
    """Of every so many steps, a few are kept."""
    slowest: bool = True
    """A step that is slower than all before it."""
    last_s: float = 60.0
    """The last seconds before the job ends. 0: none. They wait in the workers' memory, ten seconds in any
    case: steps that a person asks to record may be over when the workers hear of it."""
    updates: bool = False
    """Where workers drift: each server shard keeps, in the attempt's results (`updates-0.bin` and so on), which
    contributions every update consisted of, in order, and which version each was computed on: 32 bytes for each. Each
    worker keeps with which random states its steps began (`random-0.0.bin` and so on: 20 bytes for each). With these
    the run can be repeated exactly."""
    spool_bytes: int = 2**30
    """At most so many bytes of each process wait on the disk for a server that is away. Beyond it no more single
    events are kept, and the job says of which steps; totals go on."""

    def __post_init__(self) -> None:
        for name, value, least in (
            ("first", self.first, 0),
            ("few", self.few, 0),
            ("every", self.every, 1),
            ("spool_bytes", self.spool_bytes, 2**20),
        ):
            if value < least:
                raise UserError(name, value, f"must be at least {least}", f"Give {least} or more")
        if not 0 <= self.last_s <= 3600:
            raise UserError("last_s", self.last_s, "must be from 0 to 3600 seconds", "A minute is 60")
