"""The demo's jobs that really train, after its race (`backend/races/demo.py`); all made of the templates."""

from __future__ import annotations

from dataclasses import dataclass, replace

from backend import templates
from engine.plan.job import JobSpec, StrategySpec


@dataclass(frozen=True, kw_only=True)
class Run:
    """One job that trains: a template under a strategy."""

    template: str
    """Its name."""
    strategy: str
    workers: int = 2
    baseline: str | None = None
    """Strategy of the run of the same template that speed-up is measured against."""

    @property
    def name(self) -> str:
        return f"{self.template} {self.strategy}"

    def specification(self, baseline_id: str | None = None) -> JobSpec:
        """The job to submit."""
        job = templates.load(self.template)
        return replace(
            job,
            name=self.name,
            strategy=StrategySpec(name=self.strategy),
            cluster=replace(job.cluster, workers=self.workers),
            baseline=baseline_id,
        )


RUNS: tuple[Run, ...] = (
    Run(template="resnet-digits", strategy="single", workers=1),
    Run(template="resnet-digits", strategy="parameter-server", baseline="single"),
    Run(template="resnet-digits", strategy="p3", baseline="single"),
    Run(template="resnet-digits", strategy="ring-allreduce-overlap", baseline="single"),
)
"""In the order in which they run; a baseline stands before the runs that name it."""
