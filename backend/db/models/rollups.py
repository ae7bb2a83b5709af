"""Sums over the steps of an attempt, for figures of long runs: a figure reads as many rows as it can draw, whatever
the run's length.

Level n has a row for every 8^n steps, named by the first of them; a step's own values are level 0. Written by
`backend.ingest` in a batch's transaction.
"""

from __future__ import annotations

from sqlalchemy import SmallInteger
from sqlalchemy.orm import Mapped

from backend.db.models.base import Base, BigInt
from backend.db.models.telemetry import CLUSTERED, attempt_key, key

STEP_FACTOR = 8
STEP_LEVELS = 5
"""Levels 0 to 4: 1 to 4,096 steps."""


class LayerWait(Base):
    """How long all workers together computed nothing because a version of a layer had not arrived."""

    __tablename__ = "layer_waits"
    __table_args__ = CLUSTERED

    attempt_id: Mapped[int] = attempt_key()
    level: Mapped[int] = key(SmallInteger)
    step: Mapped[int] = key()
    """The first of the row's steps."""
    layer: Mapped[int] = key(SmallInteger)
    exposed_ns: Mapped[BigInt]


class TransferTotal(Base):
    """How long a party's sends and its receives took, added up."""

    __tablename__ = "transfer_totals"
    __table_args__ = CLUSTERED

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
    __table_args__ = CLUSTERED

    attempt_id: Mapped[int] = attempt_key()
    step: Mapped[int] = key()
    party: Mapped[int] = key(SmallInteger)
