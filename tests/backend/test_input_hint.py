"""How long workers wait for their data, and what is said to help, over HTTP and in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from backend.cli import jobs as terminal
from backend.schemas.telemetry import Summary
from backend.services.input_hint import remedy
from engine.plan.inputs import Input
from tests.backend.job_specs import submit
from tests.backend.posted_run import STEP_MS, end_attempt, record_steps, start_attempt


def summary(api: TestClient, directory: Path, inputs: tuple[float, float]) -> Summary:
    """Of a job whose workers waited for such shares of their steps."""
    posted = start_attempt(api, submit(api, f"waits {inputs}")["id"], directory)
    record_steps(posted, inputs=inputs)
    posted.post_all(api)
    end_attempt(api, posted)
    answer = api.get(f"/api/v1/jobs/{posted.job_id}/summary")
    assert answer.status_code == 200, answer.text
    return Summary.model_validate(answer.json())


def test_waiting_for_input_is_said_of_each_worker_with_what_helps(api: TestClient, tmp_path: Path) -> None:
    """It dominates where a worker waits for it a tenth of its step, and for no message as long."""
    for inputs, hint in (
        ((0.25, 0.05), "Worker 0 waits 25 % of its step for data. Prepare"),
        ((0.09, 0.0), None),
    ):
        shown = summary(api, tmp_path, inputs)
        assert [(one.worker, one.share) for one in shown.inputs] == [
            (worker, pytest.approx(share)) for worker, share in enumerate(inputs)
        ]
        assert [one.ms for one in shown.inputs] == [
            pytest.approx(share * ms) for share, ms in zip(inputs, STEP_MS, strict=True)
        ]
        assert shown.input_ms == pytest.approx(inputs[0] * STEP_MS[0])
        assert (shown.input_hint or "").startswith(hint or "")
        assert (shown.input_hint is None) == (hint is None)
        said = terminal.waiting_for_input(shown)
        assert said is not None
        assert said.endswith(
            f"(worker 0 {100 * inputs[0]:.1f} %, worker 1 {100 * inputs[1]:.1f} % of the step)"
        )


def test_who_does_not_wait_for_input_is_told_nothing(api: TestClient, tmp_path: Path) -> None:
    shown = summary(api, tmp_path, (0.0, 0.0))
    assert [(one.ms, one.share) for one in shown.inputs] == [(0, 0), (0, 0)]
    assert (shown.input_ms, shown.input_hint, terminal.waiting_for_input(shown)) == (0, None, None)


@pytest.mark.parametrize(
    ("given", "facts", "words"),
    [
        ({"prefetch": 0}, {}, "set input.prefetch to 1 or more"),
        ({}, {}, "set input.where to processes"),
        ({}, {"staged": True}, "set input.where to processes"),
        ({}, {"cuda": True, "staged": True}, "set input.where to processes"),
        ({}, {"cuda": True, "staged": True, "full": True}, "set input.where to device"),
        ({}, {"cuda": True, "full": True}, "processors are busy"),
        ({"where": "processes", "processes": 3}, {}, "set input.processes to 6, in place of 3"),
        ({"where": "processes", "processes": 3, "prefetch": 0}, {}, "set input.processes to 6"),
        ({"where": "processes", "processes": 40}, {}, "set input.processes to 64, in place of 40"),
        ({"where": "processes", "processes": 64}, {}, "Store them smaller"),
        ({"where": "processes"}, {"full": True}, "processors are busy"),
        ({"where": "processes"}, {"cuda": True, "staged": True}, "set input.where to device"),
        ({"where": "device"}, {}, "set input.where to processes, or to cpu"),
        ({"where": "device"}, {"full": True}, "set input.where to processes, or to cpu"),
        ({"where": "device"}, {"cuda": True}, "Prepare them in processes"),
        ({"where": "device"}, {"cuda": True, "full": True}, "processors are busy"),
    ],
    ids=str,
)
def test_what_helps_depends_on_where_the_data_are_prepared(
    given: dict[str, Any], facts: dict[str, bool], words: str
) -> None:
    assert words in remedy(Input(**given), **{"cuda": False, "staged": False, "full": False, **facts})
