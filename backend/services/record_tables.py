"""What the tables of a job's records hold: their columns, in which units, in the order of the files.

Names carry the units as everywhere (`_ns`, `_bytes`, `_bps`); the files say them again in each column's metadata, with
what the column means. Times are nanoseconds on the attempt's clock, whose zero is `epoch_unix_ns` of the table `jobs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["bool", "int16", "int32", "int64", "float64", "text", "name"]
"""`name`: a text of which there are few, stored as a dictionary."""


@dataclass(frozen=True)
class Column:
    """One column."""

    name: str
    kind: Kind
    unit: str
    """Empty where it has none."""
    meaning: str


JOB = Column("job", "name", "", "id of the job")
STEP = Column("step", "int32", "steps", "number of the step, from 0")
PARTY = Column("party", "name", "", "who recorded it: `worker 0`, `server 0`")
LAYER = Column("layer", "name", "", "name of the layer; null: belongs to none")

TABLES: Mapping[str, tuple[Column, ...]] = {
    "jobs": (
        JOB,
        Column("name", "text", "", "as its owner called it"),
        Column("strategy", "name", "", "how its workers synchronize"),
        Column("model", "name", "", "the model's name or entry point"),
        Column("dataset", "name", "", "the data set's name or entry point"),
        Column("workers", "int32", "workers", "how many"),
        Column("global_batch", "int32", "samples", "of one step over all workers"),
        Column("state", "name", "", "where it was in its life when this was written"),
        Column("rehearsed", "text", "", "the label of a rehearsal; null: it trained"),
        Column("slowed", "text", "", "which workers are slowed on purpose; null: none is"),
        Column("attempt", "int32", "", "number of the attempt that the other tables are of; null: none"),
        Column("epoch_unix_ns", "int64", "ns", "zero of the attempt's clock, since 1970"),
        Column("member", "int32", "", "of a race: place of its member, from 0; null without a race"),
        Column("condition", "int32", "", "of a race: place of its condition, from 0; null without a race"),
        Column("round", "int32", "", "of a race: its round, from 0; null without a race"),
    ),
    "steps": (
        JOB,
        STEP,
        Column("worker", "int16", "", "rank of the worker"),
        Column("start_ns", "int64", "ns", "start of forward"),
        Column("end_ns", "int64", "ns", "end of the step"),
        Column("samples", "int64", "samples", "processed by this worker"),
        Column("loss", "float64", "", "of this worker's samples; null: not known, or not finite"),
        Column("compute_ns", "int64", "ns", "computed"),
        Column("exposed_ns", "int64", "ns", "computed nothing because a version had not arrived"),
        Column("input_ns", "int64", "ns", "computed nothing because the input was not ready"),
    ),
    "metrics": (
        JOB,
        Column("name", "name", "", "what was measured, as `test_accuracy`; names carry their units"),
        STEP,
        Column("at_ns", "int64", "ns", "when"),
        Column("value", "float64", "", "null: not a finite number"),
    ),
    "layers": (
        JOB,
        STEP,
        PARTY,
        LAYER,
        Column("kind", "name", "", "what happened: `forward`, `send`, `wait`, ..."),
        Column("track", "name", "", "in which row of its party it is drawn"),
        Column("count", "int64", "events", "how many"),
        Column("busy_ns", "int64", "ns", "how long all of them took, added up"),
        Column("bytes", "int64", "bytes", "of all of them"),
        Column("exposed_ns", "int64", "ns", "of a wait: in which the worker computed nothing"),
    ),
    "events": (
        JOB,
        STEP,
        PARTY,
        LAYER,
        Column("slice", "int32", "", "number of the unit that travels; null: none"),
        Column("kind", "name", "", "what happened: `forward`, `send`, `wait`, ..."),
        Column("track", "name", "", "in which row of its party it is drawn"),
        Column("peer", "name", "", "the other side of a transfer; null: none"),
        Column("priority", "int32", "", "of a transfer, lower goes first; null: no transfer"),
        Column("queued_ns", "int64", "ns", "when it could have started; null: not known"),
        Column("start_ns", "int64", "ns", "when it began"),
        Column("end_ns", "int64", "ns", "when it ended"),
        Column("bytes", "int64", "bytes", "0 where it moves none"),
        Column("clock", "name", "", "whose times these are: `host` or `cuda`"),
    ),
    "links": (
        JOB,
        PARTY,
        Column("interface", "name", "", "`transport`: the party's own count; else an interface of its host"),
        Column("host", "name", "", "which host it is of"),
        Column("direction", "name", "", "`send` or `receive`, seen from the party"),
        LAYER,
        Column("all_layers", "bool", "", "everything that the interface counted, whichever layer it was for"),
        Column("start_ns", "int64", "ns", "where the bin of time begins; it is 10 ms wide"),
        Column("bytes", "int64", "bytes", "in this bin"),
        Column("rate_bps", "int64", "bits per second", "of the link, per direction; null: not known"),
        Column(
            "utilization", "float64", "share of the rate", "bytes / (bin x rate), 1 is full; null: not known"
        ),
    ),
}
"""By the name of the table, which its file has with `.parquet` behind it."""
