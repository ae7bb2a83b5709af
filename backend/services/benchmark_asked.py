"""What the benchmark of lists and figures asks for, and how long the answers took. For `benchmark.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_args

import numpy as np

from backend.figures.compare import By, What
from backend.figures.registry import FIGURES
from backend.schemas.lists import GroupedBy
from backend.services.benchmark_fill import STEP_NS, Large

AIM_MS = 300.0
"""At the 95th percentile, for every list and figure."""

WHOLE = (
    "strategies", "models", "datasets", "axes", "figures", "templates", "starts", "words", "lab", "devices", "queue",
    "races", "health",
)  # fmt: skip
"""Lists that are asked for by their names alone."""


@dataclass
class Asked:
    """One request, and how long its answers took."""

    name: str
    path: str
    query: Mapping[str, str | int]
    aimed: bool = True
    """False: no list and no figure, but a file of any size."""
    ms: list[float] = field(default_factory=list)
    size: int = 0

    def row(self) -> list[object]:
        p50, p95 = (float(np.percentile(self.ms, p)) for p in (50, 95))
        return [self.name, len(self.ms), round(self.size / 1e3, 1), p50, p95, max(self.ms), self.within]

    @property
    def within(self) -> bool | str:
        """Whether it met the aim; empty where it has none."""
        return bool(np.percentile(self.ms, 95) <= AIM_MS) if self.aimed else ""


def requests(large: Large, rival: Large, others: list[str]) -> list[Asked]:
    """Every list and every figure, as the page asks for them and as people do."""
    job, newest, middle = f"/jobs/{large.job_id}", others[-1], others[len(others) // 2]
    end, last, both = large.steps * STEP_NS, large.steps - 1, f"{large.job_id},{rival.job_id}"
    wait = f"0,{rival.steps - 1},5,-1"  # which both have
    asked = [
        Asked("jobs", "/jobs", {}),
        Asked("jobs, 200", "/jobs", {"limit": 200}),
        Asked("jobs, 200, three fields", "/jobs", {"limit": 200, "fields": "id,name,state"}),
        Asked("jobs by state", "/jobs", {"state": "failed,cancelled"}),
        Asked("jobs by strategy", "/jobs", {"strategy": "p3"}),
        Asked("jobs by model, none", "/jobs", {"model": "cnn"}),
        Asked("jobs by data set", "/jobs", {"dataset": "digits"}),
        Asked("jobs by data set, none", "/jobs", {"dataset": "synthetic"}),
        Asked("jobs, rehearsed", "/jobs", {"rehearsed": "true"}),
        Asked("jobs, not rehearsed", "/jobs", {"rehearsed": "false"}),
        Asked("jobs by baseline", "/jobs", {"baseline": newest}),
        Asked("jobs by name", "/jobs", {"text": "job 17"}),
        Asked("jobs by time", "/jobs", {"created_to": "2020-01-01T00:00:00Z"}),
        Asked("jobs by throughput", "/jobs", {"sort": "-samples_per_s", "limit": 200}),
        Asked("jobs by how long they took", "/jobs", {"sort": "-duration", "limit": 200}),
        *(Asked(f"jobs in groups by {by}", "/job-groups", {"by": by}) for by in get_args(GroupedBy)),
        Asked("job, small", f"/jobs/{middle}", {}),
        Asked("job", job, {}),
        Asked("plan", f"{job}/plan", {}),
        Asked("specification", f"{job}/specification", {}),
        Asked("attempts", f"{job}/attempts", {}),
        Asked("history", f"{job}/history", {}),
        Asked("checkpoints", f"{job}/checkpoints", {}),
        Asked("summary", f"{job}/summary", {}),
        Asked("summary, compared", f"{job}/summary", {"baseline": newest}),
        Asked("speed-ups", f"{job}/speed-ups", {}),
        Asked("links", f"{job}/links", {"bins": 100}),
        Asked("stretch of time", f"{job}/links/stretch", {"from_ns": 0, "to_ns": end}),
        Asked("staleness in numbers", f"{job}/staleness", {}),
        Asked("memory in numbers", f"{job}/memory", {}),
        Asked("metrics", f"{job}/metrics", {}),
        Asked("names of metrics", f"{job}/metrics/names", {}),
        Asked("events", f"{job}/events", {}),
        Asked("events, from the first", f"{job}/events", {"step_from": 0, "limit": 1_000}),
        Asked("events, waits", f"{job}/events", {"kind": "wait", "limit": 1_000}),
        Asked("logs", f"{job}/logs", {}),
        Asked("logs, the end", f"{job}/logs", {"offset": -65_536}),
        Asked("logs, 1 MiB", f"{job}/logs", {"limit": 1 << 20}),
        Asked("trace of one step", f"{job}/trace", {"step_from": last, "step_to": last}, aimed=False),
        *(Asked(name, f"/{name}", {}) for name in WHOLE),
        Asked("schema of a job", "/schema/job", {}),
        Asked("race", "/race", {"jobs": both}),
        Asked("race, a step", "/race", {"jobs": both, "step": 0}),
        Asked("race, a wait", "/race", {"jobs": both, "why_job": large.job_id, "why": wait}),
        Asked("race with a job without events", "/race", {"jobs": f"{large.job_id},{newest}"}),
        *(
            Asked(
                f"{what} compared by {by}",
                "/compare",
                {"jobs": f"{large.job_id},{newest}", "what": what, "by": by},
            )
            for what in get_args(What)
            for by in get_args(By)
        ),
        Asked("why it waited", f"{job}/why", {"worker": 0, "step": last, "layer": 5}),
        Asked("timeline, a step", f"{job}/figures/timeline", {"step": last}),
        Asked("timeline, five steps", f"{job}/figures/timeline", {"step": max(0, last - 4), "to_step": last}),
        Asked("timeline, a layer", f"{job}/figures/timeline", {"layer": 5}),
        Asked("timeline, a wait", f"{job}/figures/timeline", {"step": rival.steps - 1, "why": wait}),
        Asked("speed-up, another baseline", f"{job}/figures/speed-up", {"baseline": middle}),
    ]
    for name in FIGURES:
        path = f"{job}/figures/{name}"
        asked.append(Asked(f"{name}", path, {}))
        if name in ("timeline", "utilization", "heatmap"):
            for part, of in ((0, 1), (1, 4), (1, 64), (1, 1024)):
                window = {"from_ns": end * part // of, "to_ns": end * (part + 1) // of}
                asked.append(Asked(f"{name}, 1/{of} of the run", path, window))
    return asked
