"""Profiles: per-layer cost of a model on a device, measured (`measure.py`) or derived from FLOPs (`derived.py`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import UserError
from engine.plan.description import ModelDescription
from engine.profile.derived import derive
from engine.profile.devices import DEVICES
from engine.profile.profile import LayerTime, Profile, read

if TYPE_CHECKING:
    from engine.plan.job import JobSpec

__all__ = ["DEVICES", "LayerTime", "Profile", "derive", "profile_of", "read"]


def profile_of(job: JobSpec, model: ModelDescription) -> Profile:
    """The profile that a rehearsal replays. Raises UserError at `rehearsal.profile` where the file cannot be read or
    is one of another model."""
    spec = job.rehearsal
    if spec.profile is None:
        return derive(model, spec.device, spec.efficiency, job.pass_samples)
    try:
        found = read(Path(spec.profile))
        found.check(model)
    except UserError as error:
        raise UserError("rehearsal.profile", spec.profile, error.rule, error.remedy) from None
    return found
