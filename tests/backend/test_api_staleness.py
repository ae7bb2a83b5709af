"""How stale contributions were, over HTTP and in the terminal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from backend.cli import staleness as terminal
from backend.schemas.staleness import StaleCounts, Staleness
from backend.services import staleness as service
from engine.telemetry.recorder import Recorder
from engine.telemetry.staleness import WIDE_NS
from tests.backend.job_specs import submit
from tests.backend.posted_run import MS, STEP_MS, STEPS, Posted, record_steps, start_attempt

ASYNCHRONOUS = {"strategy": {"name": "async-sgd"}}


def late(worker: int, step: int, layer: int) -> int:
    """How stale a contribution was."""
    return (3 * worker + step + layer) % 5


@pytest.fixture(scope="module")
def run(api: TestClient, tmp_path_factory: pytest.TempPathFactory) -> Posted:
    """Two workers of unequal speed, and the server beside worker 1 that has recorded how stale they were."""
    job = submit(api, "drifting", **ASYNCHRONOUS)
    posted = start_attempt(api, job["id"], tmp_path_factory.mktemp("attempt"))
    record_steps(posted)
    recorder = Recorder(1, "worker 1", lambda: 0, None, attempt=posted.attempt, flush_s=3600)
    recorder._sequence = len(posted.batches)
    for worker, step_ms in enumerate(STEP_MS):
        for step in range(STEPS):
            for layer in range(2):
                recorder.staleness.count(layer, worker, late(worker, step, layer), (step + 1) * step_ms * MS)
    recorder.close()
    posted.batches += recorder.memory
    posted.post_all(api)
    return posted


def asked(api: TestClient, job_id: str, **query: object) -> Staleness:
    answer = api.get(f"/api/v1/jobs/{job_id}/staleness", params=query)  # type: ignore[arg-type]
    assert answer.status_code == 200, answer.text
    return Staleness.model_validate(answer.json())


def test_histograms_are_of_workers_layers_and_all(api: TestClient, run: Posted) -> None:
    found = asked(api, run.job_id)
    assert found.drifts
    assert (found.rehearsed, found.slowed) == (None, None)
    everything = [late(w, s, la) for w in range(2) for s in range(STEPS) for la in range(2)]
    expected = [
        (found.everything, everything),
        *(
            (each, [late(each.worker, s, la) for s in range(STEPS) for la in range(2)])
            for each in found.workers
        ),
        *((each, [late(w, s, each.index) for w in range(2) for s in range(STEPS)]) for each in found.layers),
    ]
    assert len(expected) == 1 + 2 + 2
    for counts, values in expected:
        assert counts.contributions == len(values)
        assert counts.mean == pytest.approx(np.mean(values))
        assert counts.most == max(values)
        assert counts.staleness == counts.to == sorted(set(values))
        assert counts.counts == [values.count(value) for value in counts.staleness]
    assert [each.name for each in found.workers] == ["worker 0", "worker 1"]
    planned = api.get(f"/api/v1/jobs/{run.job_id}").json()["plan"]["layers"]
    assert [each.layer for each in found.layers] == [row["plan"]["layer"] for row in planned[:2]]


def test_over_time_it_says_who_is_ahead(api: TestClient, run: Posted) -> None:
    found = asked(api, run.job_id)
    assert (found.start_ns, found.window_ns) == (0, WIDE_NS)
    ends = [WIDE_NS, 2 * WIDE_NS]
    assert found.most_over_time == [4, 4]
    for worker, step_ms in zip(found.workers, STEP_MS, strict=True):
        assert worker.steps == STEPS
        assert worker.ahead == 0, "all have come to the end"
        assert worker.most_ahead >= max(worker.ahead_over_time)
        steps = [min(end // (step_ms * MS), STEPS) for end in ends]
        assert worker.steps_over_time == steps
        first = [
            late(worker.worker, s, la)
            for s in range(STEPS)
            for la in range(2)
            if (s + 1) * step_ms * MS < ends[0]
        ]
        assert worker.mean_over_time[0] == pytest.approx(np.mean(first))
    assert found.workers[0].ahead_over_time == [16 - 12, 0]
    assert found.workers[0].most_ahead >= 4
    assert found.workers[1].ahead_over_time == [0, 0]
    joined = asked(api, run.job_id, windows=1)
    assert (len(joined.most_over_time), joined.window_ns) == (1, 2 * WIDE_NS)


def test_too_many_different_values_come_in_classes(
    api: TestClient, run: Posted, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = asked(api, run.job_id)
    monkeypatch.setattr(service, "MOST_VALUES", 10)
    monkeypatch.setattr("backend.figures.drifted.SINGLE", 2)
    found = asked(api, run.job_id).everything
    assert (found.staleness, found.to) == ([0, 1, 2, 4], [0, 1, 3, 7])
    counts = exact.everything.counts
    assert found.counts == [counts[0], counts[1], counts[2] + counts[3], counts[4]]
    assert (found.contributions, found.mean) == (exact.everything.contributions, exact.everything.mean)


def test_there_is_none_where_workers_meet(api: TestClient, tmp_path: Path) -> None:
    """Or where nothing has been recorded yet."""
    for strategy, drifts in (("p3", False), ("async-sgd", True)):
        job = submit(api, strategy, strategy={"name": strategy})
        assert job["plan"]["drifts"] is drifts
        found = asked(api, job["id"])
        assert found.drifts is drifts
        assert found.everything.contributions == 0
        assert found.everything.mean is found.everything.most is None
        assert (found.window_ns, found.most_over_time, found.layers) == (0, [], [])
        assert [worker.steps for worker in found.workers] == [0, 0]


@pytest.mark.parametrize("query", [{"attempt": 9}, {"windows": 0}, {"windows": 10**6}, {"more": 1}])
def test_what_cannot_be_answered_is_refused(api: TestClient, run: Posted, query: dict[str, int]) -> None:
    assert api.get(f"/api/v1/jobs/{run.job_id}/staleness", params=query).status_code == 422
    assert api.get("/api/v1/jobs/none/staleness").status_code == 404


def test_a_terminal_has_a_line_for_each_value_or_for_several() -> None:
    def counts(values: list[int]) -> StaleCounts:
        return StaleCounts(
            contributions=sum(values),
            mean=1.0,
            most=len(values) - 1,
            staleness=list(range(len(values))),
            to=list(range(len(values))),
            counts=values,
        )

    few = list(terminal._bars(counts([48, 24, 1])))
    assert few == [("0", "48", "#" * 24), ("1", "24", "#" * 12), ("2", "1", "#")]
    many = list(terminal._bars(counts([1_000] * 25)))
    assert [name for name, *_ in many] == [*(f"{low} to {low + 2}" for low in range(0, 24, 3)), "24"]
    assert [count for _, count, _ in many] == ["3,000"] * 8 + ["1,000"]
