"""Trainings as benchmarks run them: a real gang in a temporary directory, and what it has learned by when."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.benchmarks.harness.jobs import measure
from engine.plan.job import JobSpec
from engine.telemetry.spool import batches


@dataclass(frozen=True, kw_only=True)
class Look:
    """The model at the end of one of worker 0's steps."""

    time_s: float
    """Since training began."""
    samples: int
    """That all workers have computed by then."""
    accuracy: float
    """On the test data, in percent."""


def train(spec: JobSpec) -> list[Look]:
    """Run it; what its record says of time, samples and accuracy, in the order of time."""
    with tempfile.TemporaryDirectory(prefix="trainyard-benchmark-") as directory:
        measure(spec, warm_up=0, directory=Path(directory))
        whole = list(batches(Path(directory) / "spool"))
    steps = [
        np.concatenate([b.table("steps") for b in whole if b.party == rank])
        for rank in range(spec.cluster.workers)
    ]
    begun_ns = min(int(own["start"].min()) for own in steps)
    ends = {int(row["step"]) + 1: int(row["end"]) for row in steps[0]}
    looks = []
    for batch in whole:
        for row in batch.table("metrics"):
            if batch.party == 0 and batch.metrics[row["name"]] == "test_accuracy":
                end_ns = ends[int(row["step"])]
                samples = sum(int(own["samples"][own["end"] <= end_ns].sum()) for own in steps)
                accuracy = 100 * float(row["value"])
                looks.append(Look(time_s=(end_ns - begun_ns) / 1e9, samples=samples, accuracy=accuracy))
    return sorted(looks, key=lambda look: look.time_s)
