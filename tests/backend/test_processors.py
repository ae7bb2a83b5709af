"""The processors' share of a job: over its measured steps, in summary, figure and terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session

from backend.db.models import Metric
from engine.telemetry.definitions import WARM_UP_STEPS
from engine.telemetry.processors import BUSY, OWN
from tests.backend.job_specs import submit
from tests.backend.posted_run import MS, STEP_MS, STEPS, Posted, end_attempt, record_steps, start_attempt


@pytest.fixture
def run(api: TestClient, tmp_path: Path) -> Posted:
    posted = start_attempt(api, submit(api, "busy")["id"], tmp_path)
    record_steps(posted)
    posted.post_all(api)
    return posted


def sample(api: TestClient, run: Posted, share: float, own: float, every_ms: int = 10) -> None:
    """Samples from before the first step until after the last; those of the warm-up and after the end are busier than
    `share`, as while a program starts and while it evaluates."""
    last = STEPS * max(STEP_MS)
    warm = WARM_UP_STEPS * min(STEP_MS)

    def write(session: Session) -> None:
        busy = 100.0
        for number, at in enumerate(range(-50, last + 100, every_ms)):
            for name, part in ((BUSY, 1.0), (OWN, own / share)):
                key = {"attempt_id": run.attempt, "step": number, "at_ns": at * MS}
                session.add(Metric(name=name, value=busy * part, **key))
            busy += (share if warm <= at < last else 1.0) * every_ms / 1000

    api.app.state.context.database.writer.run(write)  # type: ignore[attr-defined]


def test_the_share_is_that_of_the_measured_steps(api: TestClient, run: Posted) -> None:
    sample(api, run, share=0.4, own=0.3)
    end_attempt(api, run)
    found = api.get(f"/api/v1/jobs/{run.job_id}/summary").json()["processors"]
    assert found == {"busy": pytest.approx(0.4), "own": pytest.approx(0.3)}
    layout = api.get(f"/api/v1/jobs/{run.job_id}/figures/step-time").json()["layout"]
    assert "processors of the machine: 40 % busy, 30 % by this job" in layout["meta"]["alt"]
    assert "40 % busy, 30 % by this job" in layout["xaxis"]["title"]["text"]


def test_a_machine_that_says_nothing_has_no_share(api: TestClient, run: Posted) -> None:
    end_attempt(api, run)
    assert api.get(f"/api/v1/jobs/{run.job_id}/summary").json()["processors"] is None
    layout = api.get(f"/api/v1/jobs/{run.job_id}/figures/step-time").json()["layout"]
    assert "processors" not in layout["meta"]["alt"]
