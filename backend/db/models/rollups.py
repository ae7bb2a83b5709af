"""Sums over the steps, or over the time, of an attempt, for figures of long runs: a figure reads as many rows as it can
draw, whatever the run's length.

Level n has a row for every 8^n steps, named by the first of them; a step's own values are level 0. Levels of time are
those of LinkBin. Written by `backend.ingest` in a batch's transaction.
"""

from __future__ import annotations

from sqlalchemy import SmallInteger
from sqlalchemy.orm import Mapped

from backend.db.models.base import Base, BigInt
from backend.db.models.telemetry import CLUSTERED, PARTED, attempt_key, key

STEP_FACTOR = 8
STEP_LEVELS = 5
"""Levels 0 to 4: 1 to 4,096 steps."""


class LayerWait(Base):
    """How long all workers together computed nothing because a version of a layer had not arrived."""

    __tablename__ = "layer_waits"
    __table_args__ = CLUSTERED | PARTED

    attempt_id: Mapped[int] = attempt_key()
    level: Mapped[int] = key(SmallInteger)
    step: Mapped[int] = key()
    """The first of the row's steps."""
    layer: Mapped[int] = key(SmallInteger)
    exposed_ns: Mapped[BigInt]


class TransferTotal(Base):
    """How long a party's sends and its receives took, added up."""

    __tablename__ = "transfer_totals"
    __table_args__ = CLUSTERED | PARTED

    attempt_id: Mapped[int] = attempt_key()
    level: Mapped[int] = key(SmallInteger)
    step: Mapped[int] = key()
    """The first of the row's steps."""
    party: Mapped[int] = key(SmallInteger)
    kind: Mapped[int] = key(SmallInteger)
    """`engine.telemetry.events.Kind`: SEND or RECEIVE."""
    busy_ns: Mapped[BigInt]


class DetailedStep(Base):
    """A step of which a party sent detailed events."""

    __tablename__ = "detailed_steps"
    __table_args__ = CLUSTERED | PARTED

    attempt_id: Mapped[int] = attempt_key()
    step: Mapped[int] = key()
    party: Mapped[int] = key(SmallInteger)


class StalenessCount(Base):
    """How many of a worker's contributions to a layer were applied at that staleness, in the whole attempt."""

    __tablename__ = "staleness_counts"
    __table_args__ = CLUSTERED | PARTED

    attempt_id: Mapped[int] = attempt_key()
    layer: Mapped[int] = key(SmallInteger)
    worker: Mapped[int] = key(SmallInteger)
    staleness: Mapped[int] = key()
    count: Mapped[BigInt]


class StalenessWindow(Base):
    """How many of a worker's contributions, to whichever layer, were applied at that staleness in a window of time."""

    __tablename__ = "staleness_windows"
    __table_args__ = CLUSTERED | PARTED

    attempt_id: Mapped[int] = attempt_key()
    level: Mapped[int] = key(SmallInteger)
    """Windows are 10 ms x 8^level wide; the first level is `engine.telemetry.events.STALENESS_LEVEL`."""
    bin: Mapped[int] = key()
    """Covers bin x width to (bin + 1) x width on the attempt's clock."""
    worker: Mapped[int] = key(SmallInteger)
    staleness: Mapped[int] = key()
    count: Mapped[BigInt]
