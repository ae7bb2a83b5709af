"""What went over the links of one job in a stretch of time, and what was waited for in it."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from backend.schemas.base import Schema
from backend.schemas.links import MOST_NS


class StretchQuery(Schema):
    """Which stretch of which attempt."""

    model_config = ConfigDict(extra="forbid")

    from_ns: int = Field(ge=-MOST_NS, le=MOST_NS)
    """On the attempt's clock."""
    to_ns: int = Field(ge=-MOST_NS, le=MOST_NS)
    """Where it ends."""
    attempt: int | None = Field(default=None, ge=1, le=2**31 - 1)
    """Number of the attempt. Left out: the latest."""
    link: str | None = Field(default=None, max_length=2_000)
    """One link, or several with commas, by `key`. Left out: all."""


class StretchLink(Schema):
    """One link in one direction."""

    key: str
    """What requests call the link."""
    party_name: str
    interface: str
    host: str
    shared: bool
    """Whether its counters are those of the whole machine, other programs included."""
    by_size: bool
    """Whether bytes of PyTorch's collectives are told apart by the layers' sizes."""
    direction: str
    """`send` or `receive`."""
    rate_bps: int | None
    """Per direction. Null: not known."""
    rate_source: str
    """`shaped`, `interface` (its own), `declared` by the job, or `unknown`."""
    bytes: int
    """Of everything together."""
    share: float | None
    """Bytes over (time x rate), 1 = full. Null: the rate is not known."""
    most: float | None
    """The same of the fullest bin. Above 1 it holds a burst: bytes count when they are handed over, and a buffer then
    lets them out at the rate; or the link is faster than a rate that was only declared."""


class StretchBytes(Schema):
    """What one layer moved over one link, or what went beyond the layers."""

    link: int
    """Place of the link in `links`."""
    bytes: int
    share: float | None
    """Bytes over (time x rate). Null: the rate is not known."""


class StretchLayer(Schema):
    """One layer, or neighbouring ones, where deep networks share rows of wide bins; `index` -1: belongs to no layer
    (headers, control, collectives of several layers)."""

    layer: str
    layer_name: str
    """The same as people read it: `4 (Conv2d)` of a layer called `4`."""
    index: int
    last_index: int
    moved: list[StretchBytes]
    """Only the links over which it moved anything."""
    waits: int
    """Exposed waits for the layer that fall into the stretch, of all workers; one for a bucket of several layers is a
    wait for each of them."""
    waited_ns: int
    """How much of them lies in the stretch; of a wait for a bucket, the layer's share by bytes."""


class LinkStretch(Schema):
    """The bytes of a stretch of time by layer and link, and the exposed waits that fall into it."""

    rehearsed: str | None
    """The label of a rehearsal, which stands beside every value; null for a job that trains."""
    slowed: str | None
    """Which workers are slowed on purpose, and by how much; it stands beside the rehearsal's label. Null: none is."""
    from_ns: int
    """The stretch in whole bins: it begins with the bin in which the one that was asked for begins."""
    to_ns: int
    bin_ns: int
    """10 ms, or 8, 64, ... times that in long stretches."""
    links: list[StretchLink]
    """Those that moved anything."""
    layers: list[StretchLayer]
    """Those that moved anything or were waited for, in the model's order; what belongs to no layer comes last."""
    waits: int
    """Exposed waits that fall into the stretch, of all workers."""
    waited_ns: int
    """How much of them lies in the stretch: the layers' sum."""
    steps_without_events: int
    """Steps in the stretch whose events were not kept: their waits are not counted."""
    revision: int
