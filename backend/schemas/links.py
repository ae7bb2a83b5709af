"""What went over the links of one job, by layer."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from backend.schemas.base import Schema

MOST_NS = 2**60


class LinkQuery(Schema):
    """Which links, layers and times."""

    model_config = ConfigDict(extra="forbid")

    attempt: int | None = Field(default=None, ge=1, le=2**31 - 1)
    """Number of the attempt. Left out: the latest."""
    link: str | None = Field(default=None, max_length=2_000)
    """One link, or several with commas, by `key`. Left out: all."""
    direction: Literal["send", "receive"] | None = None
    """Left out: both."""
    layer: int | None = Field(default=None, ge=0, le=2**15 - 1)
    """Index of one layer, which comes with `other_bytes`. Left out: all layers."""
    from_ns: int | None = Field(default=None, ge=-MOST_NS, le=MOST_NS)
    """On the attempt's clock; needs to_ns. Left out: from the beginning."""
    to_ns: int | None = Field(default=None, ge=-MOST_NS, le=MOST_NS)
    """Where it ends. Left out: to the end."""
    bins: int | None = Field(default=None, ge=1, le=10_000)
    """At most so many: they are 10 ms wide, or 8, 64, ... times that. Left out: 500, or fewer where one answer does not
    hold the values of so many."""


class LayerSeries(Schema):
    """One layer's bytes over time; of neighbouring layers together, where deep networks share rows of wide bins."""

    layer: str
    index: int
    last_index: int
    """The same as `index`, unless the row is that of several layers."""
    bytes: list[int]
    """In each bin."""
    utilization: list[float] | None
    """Bytes over (bin x rate), 1 = full. Null: the link's rate is not known."""


class LinkSeries(Schema):
    """One link in one direction."""

    key: str
    """What requests call the link."""
    party: int
    party_name: str
    interface: str
    """`transport`: what the party's own transport counted, and the kernel on the connections of its collectives."""
    host: str
    shared: bool
    """Whether its counters are those of the whole machine, other programs included."""
    by_size: bool
    """Whether collectives that PyTorch runs (`ddp`, `fsdp`, `native-allreduce`) use it. The kernel counts their bytes;
    which layer they are of is known by the layers' sizes in each bucket."""
    direction: Literal["send", "receive"]
    rate_bps: int | None
    """Per direction. Null: not known."""
    rate_source: str
    """`shaped`, `interface` (its own), `declared` by the job, or `unknown`."""
    layers: list[LayerSeries]
    """Those that moved anything."""
    other_bytes: list[int]
    """Beyond the layers: headers, control messages, and on a shared interface other programs."""
    utilization: list[float] | None
    """Of everything together."""


class Links(Schema):
    """Bytes over the links of one attempt, in bins of time."""

    rehearsed: str | None
    """The label of a rehearsal, which stands beside every value; null for a job that trains."""
    slowed: str | None
    """Which workers are slowed on purpose, and by how much; it stands beside the rehearsal's label. Null: none is."""
    bin_ns: int
    """Width of a bin."""
    start_ns: int
    """Where the first one starts, on the attempt's clock."""
    bins: int
    wider: str | None
    """Why bins are wider than in 500 of them, and what to ask for to have narrower ones. Null: they are not, or `bins`
    was asked for."""
    links: list[LinkSeries]
    """Those that moved anything; directions in which nothing went are left out."""
    revision: int
