"""Profiles: per-layer cost of a model on a device, derived from FLOPs (`derived.py`) or measured by a gang
(`engine/gang/measure.py`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import UserError
from engine.plan.description import ModelDescription
from engine.plan.devices import DEVICES
from engine.profile.derived import derive
from engine.profile.profile import LayerTime, Profile, read

if TYPE_CHECKING:
    from engine.plan.job import JobSpec

__all__ = ["DEVICES", "LayerTime", "Profile", "derive", "measured", "profile_of", "read"]


MOST_APART = 2
"""A measured profile serves passes of up to so many times more or fewer samples than its own: within that, time goes
about with the number of samples; beyond, kernels fill a device differently."""


def profile_of(job: JobSpec, model: ModelDescription, replicas: int | None = None) -> Profile:
    """The profile that a rehearsal replays. Raises UserError at `rehearsal.profile` where the file cannot be read, is
    one of another model, or was measured at another batch. `replicas` of the model share a batch; None: every worker
    has one."""
    spec = job.rehearsal
    samples = job.pass_samples(replicas or job.cluster.workers)
    if spec.profile is None:
        return derive(model, spec.device, spec.efficiency, samples)
    return measured(spec.profile, "rehearsal.profile", model, samples)


def measured(path: str, field: str, model: ModelDescription, samples: int) -> Profile:
    """The profile in a file, for passes of so many samples of `model`. Raises UserError at the field that names it, as
    `profile_of` does."""
    try:
        found = read(Path(path))
        found.check(model)
        _check_batch(found, samples)
    except UserError as error:
        raise UserError(field, path, error.rule, error.remedy) from None
    return found


def _check_batch(profile: Profile, samples: int) -> None:
    if profile.source == "measured" and not samples / MOST_APART <= profile.batch <= samples * MOST_APART:
        raise UserError(
            "",
            profile.batch,
            f"the profile was measured at passes of {profile.batch} samples, the job's have {samples}, and the time of "
            "a sample is not the same in both",
            f"Measure the model with `trainyard profile --batch {samples}`",
        )
