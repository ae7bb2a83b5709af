"""What the parties of an attempt recorded: raw batches, and the rollups that lists and live figures read.

All are written by `backend.ingest`, batch and rollups in one transaction. Rows are keyed by attempt first
and, on SQLite, stored in the order of their key (WITHOUT ROWID): a figure reads one contiguous range.
"""

from __future__ import annotations

from sqlalchemy import ForeignKey, Index, Integer, LargeBinary, SmallInteger, String, false
from sqlalchemy.orm import Mapped, mapped_column

from backend.db.models.base import Base, BigInt

CLUSTERED = {"sqlite_with_rowid": False}
PARTED = {"postgresql_partition_by": "RANGE (attempt_id)"}
"""See `backend/db/partitions.py`."""


def attempt_key() -> Mapped[int]:
    return mapped_column(ForeignKey("attempts.id", ondelete="CASCADE"), primary_key=True)


def key(kind: type[Integer] = Integer) -> Mapped[int]:
    return mapped_column(kind, primary_key=True, autoincrement=False)


class Batch(Base):
    """One batch as it was received: the evidence that everything else is made from."""

    __tablename__ = "batches"
    __table_args__ = (Index(None, "attempt_id", "first_step", "last_step"), PARTED)

    attempt_id: Mapped[int] = attempt_key()
    party: Mapped[int] = key(SmallInteger)
    sequence: Mapped[int] = key()
    sha256: Mapped[str] = mapped_column(String(64))
    events: Mapped[int]
    """Number of detailed events inside."""
    first_step: Mapped[int]
    """Of the detailed events, as is last_step; -1 where it holds none."""
    last_step: Mapped[int]
    first_ns: Mapped[BigInt]
    last_ns: Mapped[BigInt]
    received_unix_ns: Mapped[BigInt]
    body: Mapped[bytes] = mapped_column(LargeBinary)
    """`engine.telemetry.batch` decodes it."""


class StepRow(Base):
    """One step of one worker."""

    __tablename__ = "step_rows"
    __table_args__ = CLUSTERED

    attempt_id: Mapped[int] = attempt_key()
    step: Mapped[int] = key()
    party: Mapped[int] = key(SmallInteger)
    start_ns: Mapped[BigInt]
    """Start of forward."""
    end_ns: Mapped[BigInt]
    samples: Mapped[BigInt]
    """Processed by this worker in this step."""
    loss: Mapped[float | None]
    """None: not known, or not a finite number."""
    exposed_ns: Mapped[BigInt]
    """Computed nothing because a version had not arrived."""
    compute_ns: Mapped[BigInt]
    input_ns: Mapped[BigInt]
    """Computed nothing because the input was not ready."""


class Metric(Base):
    """One value of a named metric (test accuracy, test loss, ...) after a step."""

    __tablename__ = "metrics"
    __table_args__ = CLUSTERED

    attempt_id: Mapped[int] = attempt_key()
    name: Mapped[str] = mapped_column(String(100), primary_key=True)
    step: Mapped[int] = key()
    at_ns: Mapped[BigInt]
    value: Mapped[float | None]
    """None: not a finite number."""


class LayerTotal(Base):
    """Totals of all events of one party, step, layer, kind and track; layer -1 is "no layer"."""

    __tablename__ = "layer_totals"
    __table_args__ = CLUSTERED | PARTED

    attempt_id: Mapped[int] = attempt_key()
    step: Mapped[int] = key()
    party: Mapped[int] = key(SmallInteger)
    layer: Mapped[int] = key(SmallInteger)
    kind: Mapped[int] = key(SmallInteger)
    """`engine.telemetry.events.Kind`."""
    track: Mapped[int] = key(SmallInteger)
    """`engine.telemetry.events.Track`."""
    count: Mapped[int]
    busy_ns: Mapped[BigInt]
    bytes: Mapped[BigInt]
    exposed_ns: Mapped[BigInt]


class LinkBin(Base):
    """Bytes of one party's interface in one direction and one bin of time, by layer."""

    __tablename__ = "link_bins"
    __table_args__ = CLUSTERED | PARTED

    attempt_id: Mapped[int] = attempt_key()
    level: Mapped[int] = key(SmallInteger)
    """Bins are 10 ms x 8^level wide."""
    party: Mapped[int] = key(SmallInteger)
    interface: Mapped[str] = mapped_column(String(64), primary_key=True)
    bin: Mapped[int] = key()
    """Covers bin x width to (bin + 1) x width on the attempt's clock."""
    direction: Mapped[int] = key(SmallInteger)
    """`engine.telemetry.events.Direction`: 0 transmitted, 1 received."""
    layer: Mapped[int] = key(SmallInteger)
    """-1: belongs to no layer; -2: all that the interface counted."""
    bytes: Mapped[BigInt]


class DroppedDetail(Base):
    """Events that a batch counts in its totals and does not hold, for want of room."""

    __tablename__ = "dropped_details"
    __table_args__ = CLUSTERED | PARTED

    attempt_id: Mapped[int] = attempt_key()
    party: Mapped[int] = key(SmallInteger)
    sequence: Mapped[int] = key()
    events: Mapped[int]
    first_step: Mapped[int]
    """-1, as last_step, where they belong to no step."""
    last_step: Mapped[int]


class Link(Base):
    """An interface that a party reported on, and its rate."""

    __tablename__ = "links"
    __table_args__ = CLUSTERED

    attempt_id: Mapped[int] = attempt_key()
    party: Mapped[int] = key(SmallInteger)
    interface: Mapped[str] = mapped_column(String(64), primary_key=True)
    host: Mapped[str] = mapped_column(String(255))
    rate_bps: Mapped[BigInt | None]
    """Bits per second per direction; None where it is not known, and then no percentage is shown."""
    rate_source: Mapped[str] = mapped_column(String(16))
    """shaped, interface, declared or unknown."""
    shared: Mapped[bool] = mapped_column(default=False, server_default=false())
    """What is not the job's uses it, too."""
    by_size: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Collectives of torch.distributed use it: their bytes are told apart by the layers' sizes in what was sent."""
