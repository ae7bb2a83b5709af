"""Jobs that do not end before a test lets them. Where a job must only still be running, that leaves the cores to the
others, and no number of steps has to be large enough."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.backend.job_specs import job_spec

USER_CODE = Path(__file__).with_name("user_code")
NEVER = 1_000_000
"""The step at which a job stops that is to go on."""


def held_spec(
    name: str,
    *,
    at: int = 30,
    steps: int = NEVER,
    keeps_pace: bool = False,
    pause_s: float = 0.02,
    **changes: Any,
) -> dict[str, Any]:
    """A job that takes a little longer than `pause_s` for a step and stops at step `at`; one that `keeps_pace` takes
    its time afterwards, too."""
    options = {"at": at, "keeps_pace": keeps_pace, "pause_s": pause_s}
    model = {"entrypoint": "held:build", "directory": str(USER_CODE), "options": options}
    return job_spec(name, model=model, training={"steps": steps, "global_batch": 32}, **changes)


def let_go(data_dir: Path, job_id: str) -> None:
    """From now on the job's first attempt stops nowhere, and takes no time unless it `keeps_pace`."""
    (data_dir / "jobs" / job_id / "1" / "go").touch()
