"""Profiles from real steps: the model trains alone under `single`, and its recorder says what each layer took.

    python -m engine.gang.measure < request.json > answer.json

The request is {"model": SourceSpec, "data": SourceSpec, "precision": "float32", "batch": 32, "steps": 20, "threads": 1,
"device": "cpu" | "cuda" | a name of the device table, "efficiency": 0.6}; for a device of the table the profile is
derived. The answer is {"profile": Profile, "model": ModelDescription}, or {"error": {...}} with status 1. A process
of its own, so that who asks never imports torch. A number after its name is a pipe's descriptor: when the other end
closes, this process ends.

Times are those of `engine/state/recording.py`: spans tile each pass, so what lies between layers with parameters
is booked on them. They are medians over the steps after the warm-up. On CUDA every launch waits for its kernel
(CUDA_LAUNCH_BLOCKING), so that the host's times are the device's; that costs the overlap of the two, which shows where
kernels are short.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.errors import UserError
from engine.gang.gang import Gang
from engine.launch import prepare
from engine.lifeline import end_with
from engine.models.describe import describe_request
from engine.plan.description import ModelDescription
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain, to_plain
from engine.profile.derived import derive
from engine.profile.profile import LayerTime, Profile
from engine.strategies import build_plan
from engine.telemetry.definitions import WARM_UP_STEPS
from engine.telemetry.events import NO_LAYER, Kind
from engine.telemetry.spool import batches


def measure(job: JobSpec, model: ModelDescription) -> Profile:
    """Run `job`, which has one worker, and read its layers' times off its events. Raises UserError where the batch is
    larger than the data, RuntimeError with the worker's last words where it fails."""
    samples, device = job.training.global_batch, job.cluster.device
    if model.samples is not None and samples > model.samples:
        raise UserError("batch", samples, f"the data have {model.samples} samples", "Use a smaller batch")
    if device == "cuda":
        os.environ["CUDA_LAUNCH_BLOCKING"] = "1"  # the gang inherits it
    with tempfile.TemporaryDirectory(prefix="trainyard-profile-") as directory:
        plan = build_plan(job, model)
        launch = prepare(
            job, plan, model, Path(directory), devices=("cuda:0" if device == "cuda" else "cpu",)
        )
        launch.write()
        gang = Gang(launch)
        try:
            gang.start()
            end = gang.wait(None)
        finally:
            gang.stop()
        if end is None or end.status != "succeeded":
            if end is not None and end.error and (user := end.error["user"]):
                raise UserError(user["field"], user["value"], user["rule"], user["remedy"])
            raise RuntimeError("no end" if end is None else end.reason)
        events = np.concatenate([batch.table("events") for batch in batches(launch.spool)])
    events = events[events["step"] >= WARM_UP_STEPS]

    def seconds(kind: Kind, layer: int) -> float:
        mine = events[(events["kind"] == kind) & (events["layer"] == layer)]
        spent = np.bincount(
            mine["step"], weights=mine["end"] - mine["start"], minlength=job.training.steps or 0
        )
        return float(np.median(spent[WARM_UP_STEPS:])) / 1e9 / samples

    return Profile(
        model=model.name,
        checksum=model.checksum,
        source="measured",
        device=device,
        hardware=_hardware(job),
        batch=samples,
        layers=tuple(
            LayerTime(
                layer=layer.name,
                forward_s=seconds(Kind.FORWARD, layer.index),
                backward_s=seconds(Kind.BACKWARD, layer.index),
            )
            for layer in model.layers
        ),
        before_s=seconds(Kind.FORWARD, NO_LAYER),
        after_s=seconds(Kind.BACKWARD, NO_LAYER),
    )


def profile_request(request: dict[str, Any]) -> tuple[Profile, ModelDescription]:
    """Measure or derive what the request says. Raises UserError for whatever it got wrong."""
    model = describe_request(request)
    if request["device"] not in ("cpu", "cuda"):
        return derive(model, request["device"], request["efficiency"], request["batch"]), model
    if request["device"] == "cuda" and not torch.cuda.is_available():
        raise UserError(
            "device", "cuda", "this machine has no CUDA device", "Use cpu, or a device of the table"
        )
    plain = {
        "name": "profile",
        "model": request["model"],
        "data": request["data"],
        "cluster": {"device": request["device"], "threads": request["threads"]},
        "training": {
            "steps": WARM_UP_STEPS + request["steps"],
            "global_batch": request["batch"],
            "precision": request["precision"],
        },
        "optimizer": {"learning_rate": 1e-5},  # what is learned is of no interest, but it must not diverge
        "evaluation": {"every_epochs": None, "at_end": False},
        "telemetry": {"detail": "all"},
    }
    return measure(from_plain(JobSpec, plain), model), model


def main() -> int:
    """Standard input to standard output; what user code prints goes to standard error, also what its workers print."""
    if len(sys.argv) > 1:
        end_with(int(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        profile, model = profile_request(json.load(sys.stdin))
        answer = {"profile": to_plain(profile), "model": model.to_dict()}
    except UserError as error:
        answer = {"error": error.to_dict()}
    with answers:
        json.dump(answer, answers)
    return 1 if "error" in answer else 0


def _hardware(job: JobSpec) -> str:
    if job.cluster.device == "cuda":
        return f"{torch.cuda.get_device_name(0)}, PyTorch {torch.__version__}"
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    name = names[0].partition(":")[2].strip() if names else "CPU"
    return f"{name}, {job.cluster.threads} thread(s), PyTorch {torch.__version__}"


if __name__ == "__main__":
    sys.exit(main())
