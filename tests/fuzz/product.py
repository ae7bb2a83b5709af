"""The engine's side: a case as a job in real processes, and how it ended."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from engine import launch as launches
from engine.errors import UserError
from engine.gang.gang import Gang
from engine.launch import Launch
from engine.models.describe import describe_request
from engine.plan.job import JobSpec
from engine.plan.plan import replicas
from engine.plan.serde import from_plain, to_plain
from engine.strategies import build_plan, check_options

DEADLINE_S = 30.0
"""How long processes wait for one another, and the longest that a job may take twice over."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How the engine's training of a case ended."""

    how: Literal["trained", "refused", "failed", "hung"]
    """`refused`: with an error that a person can act on; `failed`: with any other."""
    state: dict[str, Tensor] | None = None
    replicas: int | None = None
    """Of what was trained: how many whole models there were. Each saw its share of every batch."""
    test_loss: float | None = None
    test_accuracy: float | None = None
    rule: str = ""
    """Of a refusal: which rule, without the value; of a failure its error."""
    placed: bool = False
    """Of a failure: whether its message names a line of the user's file."""
    message: str = ""
    """The whole error."""


def spec_of(job: dict[str, Any], module: str, directory: Path) -> JobSpec:
    """The job whose model and data are the file `module` in `directory`."""
    here = str(directory)
    return from_plain(
        JobSpec,
        {
            "name": module,
            "model": {"entrypoint": f"{module}:build", "directory": here},
            "data": {"entrypoint": f"{module}:data", "directory": here},
            **job,
        },
    )


def train(
    job: dict[str, Any], module: str, directory: Path, attempt: Path, make: Callable[[Launch], Gang]
) -> Ended:
    """Train the user's file `module` in `directory` as `job` says; what is written goes to `attempt`, and is removed.
    `make`: the gang of a launch."""
    shutil.rmtree(attempt, ignore_errors=True)  # of a campaign that was broken off here
    try:
        spec = spec_of(job, module, directory)
        check_options(spec)
        request = {
            "model": to_plain(spec.model), "data": to_plain(spec.data), "precision": spec.training.precision
        }  # fmt: skip
        description = describe_request(request)
        plan = build_plan(spec, description)
        launch = replace(launches.prepare(spec, plan, description, attempt), deadline_s=DEADLINE_S)
        launch.write()
    except UserError as error:
        return Ended(how="refused", rule=_rule(error.to_dict()), message=str(error))
    except Exception as error:
        return Ended(how="failed", rule=type(error).__name__, message=f"{type(error).__name__}: {error}")
    gang = make(launch)
    gang.start()
    try:
        end = gang.wait(2 * DEADLINE_S)
        if end is None:
            return Ended(how="hung", rule="no end", message=f"no end within {2 * DEADLINE_S:.0f} s")
        if end.status != "succeeded":
            return _unsuccessful(end.error, end.reason)
        summary = json.loads(launch.summary(0).read_text())
        return Ended(
            how="trained",
            state=torch.load(launch.result / "model.pt", weights_only=True),
            replicas=replicas(plan, spec.cluster.workers),
            test_loss=summary["test_loss"],
            test_accuracy=summary["test_accuracy"],
        )
    finally:
        gang.stop()
        shutil.rmtree(attempt, ignore_errors=True)


def _unsuccessful(error: dict[str, Any] | None, reason: str) -> Ended:
    if error is None:
        return Ended(how="failed", rule="ended without a word", message=reason)
    if error["user"] is not None:
        return Ended(how="refused", rule=_rule(error["user"]), message=reason)
    if error["type"] == "TrainingError":
        return Ended(how="refused", rule=general(error["message"]), message=reason)
    message = f"{reason}\n{''.join(error['traceback'])}"
    if error["type"] in ("TimeoutError", "PeerLost"):
        return Ended(how="hung", rule=error["type"], message=message)
    return Ended(
        how="failed",
        rule=f"{error['type']}: {general(error['message'])}",
        placed=re.search(r"\(\S+\.py, line \d+", error["message"]) is not None,
        message=message,
    )


def _rule(error: dict[str, Any]) -> str:
    return general(error["rule"])


def general(text: str) -> str:
    """An error's first sentence without what differs from network to network: names of layers, numbers, shapes."""
    first = text.strip().splitlines()[0] if text.strip() else ""
    first = re.sub(r"'[^']*'|\"[^\"]*\"", "'…'", first)
    first = re.sub(r"\b(self\.)?[a-z_]+\d+(\.[a-z_0-9]+)*\b", "…", first)
    return re.sub(r"\d+(\.\d+)?", "0", first)[:200]
