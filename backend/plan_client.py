"""What the service answers about a job before it runs, as methods of the client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from backend.connection import Connection
from backend.drawn import drawn
from backend.schemas.memory import LargestBatchView, MemoryView
from backend.schemas.paying import PayingView
from backend.schemas.plans import PlanView
from engine.plan.job import JobSpec
from engine.plan.serde import to_plain

if TYPE_CHECKING:
    import plotly.graph_objects as go


class PlanClient(Connection):
    """Plans, and what is predicted of them."""

    def preview(self, spec: JobSpec | Mapping[str, Any]) -> PlanView:
        """The plan that a submission would get."""
        return self._read(PlanView, "POST", "/plans", json=to_plain(spec))

    def memory(self, spec: JobSpec | Mapping[str, Any]) -> MemoryView:
        """What a worker of the job would hold in memory, by layer: predicted, and declared by its plan."""
        return self._read(MemoryView, "POST", "/plans/memory", json=to_plain(spec))

    def codecs(self, spec: JobSpec | Mapping[str, Any]) -> PayingView:
        """From which rate of a host's link down each codec would save time for the job."""
        return self._read(PayingView, "POST", "/plans/codecs", json=to_plain(spec))

    def largest_batch(self, spec: JobSpec | Mapping[str, Any], memory: str | int) -> LargestBatchView:
        """The largest batch of the job that fits a worker of `memory` (`16GiB`, or bytes), for each way to treat
        activations. It may take a minute."""
        path, query = "/plans/largest-batch", {"memory": memory}
        return self._read(LargestBatchView, "POST", path, json=to_plain(spec), params=query)

    def largest_batch_figure(
        self, spec: JobSpec | Mapping[str, Any], memory: str | int, **view: Any
    ) -> go.Figure:
        """The largest batch over a worker's memory up to this, and how fast it is trained. `view`: width, theme."""
        path, query = "/plans/largest-batch/figure", {"memory": memory, **view}
        return drawn(self._send("POST", path, json=to_plain(spec), params=query).text)
