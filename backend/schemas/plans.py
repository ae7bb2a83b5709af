"""A plan as the launch page and the job page show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, Union

from pydantic import BeforeValidator

from backend.schemas.base import Schema, keep_schemas
from engine.axes.consistency import CONSISTENCY
from engine.plan.budget import Fitted
from engine.plan.cluster import Party
from engine.plan.consistency import Consistency
from engine.plan.inputs import Input
from engine.plan.plan import LayerPlan, Servers
from engine.plan.row import Row
from engine.plan.serde import from_plain

_SETTINGS = tuple(mode.load().settings for mode in CONSISTENCY)
keep_schemas(*_SETTINGS, Fitted, Input, LayerPlan, Servers)


def _settings(value: Any) -> Any:
    """Those of the mode that the value names: tried one after another, the other modes' refuse it for good."""
    return from_plain(Consistency, value) if isinstance(value, dict) else value


if TYPE_CHECKING:
    Settings: TypeAlias = Consistency
else:
    Settings = Annotated[Union[_SETTINGS], BeforeValidator(_settings)]  # noqa: UP007 - of what the axis lists
    """Those of one mode, so that the schema has every mode's."""


class PlannedLayer(Schema):
    """One layer: the readable row, and the choices it shows."""

    row: Row
    """What people read."""
    plan: LayerPlan
    """The choice on every axis."""


class PlanView(Schema):
    """A resolved plan."""

    strategy: str
    """The strategy that built it."""
    peer: str | None
    """The system that runs it instead of our own exchanges (`ddp`, `fsdp`); null for a plan of ours."""
    layers: list[PlannedLayer]
    """In forward order. Empty for a peer, which decides by itself."""
    servers: Servers
    """The server shards."""
    consistency: Settings
    """How far workers may drift."""
    drifts: bool
    """Whether workers do not wait for one another in every step: then contributions may be stale."""
    averages: bool
    """Whether workers train alone and average: then a layer's bytes travel once in a period."""
    input: Input
    """Where the data are prepared."""
    parties: list[Party]
    """Every process of the job."""
    memory: Fitted | None
    """What was chosen for the job's budget of memory, and what is predicted of it. Null where it has none."""
    notes: list[str]
    """Which of the job's overrides set which layers, and which layers are waited for before they are read, and why."""
    warnings: list[str]
    """What a person should know before submitting."""
    wire_bytes_per_step: int | None
    """Payload that crosses the network in one step, over all links; where workers average, the mean of a period. Null
    for a peer: it does not say."""
    wire_exact: bool
    """Whether these are the bytes; else they are the most that there are, as a codec's messages differ in length."""
    units: int
    """Number of units that travel. 0 for a peer."""
    parameters: int
    """Elements of the model."""
    parameter_bytes: int
    """The same in bytes."""
    forward_flops: int
    """Floating-point operations of one sample's forward pass."""
    text: str
    """The same as a table in plain text."""
    expected_s: float | None = None
    """Of a preview: how long the job is expected to run, as it declares or as the median of like jobs took that ended
    before. Null: nobody knows, for fewer than three have ended."""
