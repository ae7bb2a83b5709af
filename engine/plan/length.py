"""How long a job is in steps. No NumPy and no torch: plans count in epochs, too."""

from __future__ import annotations

from engine.plan.job import TrainingSpec


def steps_per_epoch(samples: int, global_batch: int) -> int:
    """Steps of one epoch; the last one may be smaller than `global_batch`."""
    return -(-samples // global_batch)


def total_steps(training: TrainingSpec, samples: int) -> int:
    """Steps of a whole job over `samples` training samples."""
    if training.steps is not None:
        return training.steps
    return max(1, round((training.epochs or 0) * steps_per_epoch(samples, training.global_batch)))
