"""A job that goes on without a worker that is lost: in real processes, which are killed."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import UserError
from engine.gang import losses
from engine.gang.gang import Gang, GangEnd
from engine.inputs.build import load_dataset
from engine.inputs.sharding import global_batch_at, shard
from engine.plan.job import LEAST_SILENCE_S, JobSpec
from engine.plan.plan import Plan
from engine.state.update_record import read
from tests.data_planes import PLANES
from tests.engine.test_runtime_failures import USER_CODE, gone, started, wait_until
from tests.jobs import job, plan_of

SERVERS, STEPS = 2, 300
DEDICATED = {"servers": SERVERS, "where": "dedicated"}


ENDLESS: dict[str, Any] = {"steps": 100_000, "pause_s": 0.02}
"""Of a job that only its failure ends: its workers go on until somebody has noticed."""


def spec_of(
    strategy: str, marks: Path, *, workers: int = 3, steps: int = STEPS, pause_s: float = 0.0, **options: Any
) -> JobSpec:
    """Its workers leave a file in `marks` when they come to step 3, and pause in every later one."""
    return job(
        model={
            "entrypoint": "trouble:build",
            "directory": str(USER_CODE),
            "options": {"marks": str(marks), "pause_s": pause_s},
        },
        strategy={"name": strategy, "options": {**DEDICATED, **options}},
        cluster={"workers": workers, "worker_loss": "go-on"},
        training={"steps": steps},
        evaluation={"every_epochs": None, "at_end": True},
        telemetry={"updates": True},
    )


def kill(gang: Gang, marks: Path, party: str, how: signal.Signals = signal.SIGKILL) -> None:
    wait_until((marks / party).exists, f"step 3 on {party}")
    os.kill(gang.pids[party], how)


def ended(gang: Gang) -> GangEnd:
    end = gang.wait(60.0)
    assert end is not None, "the job has not ended"
    assert gone(gang.pids.values())
    return end


def records(launch: Any) -> np.ndarray:
    return np.concatenate([read(launch.updates(shard)) for shard in range(SERVERS)])


def planes(suite: str) -> pytest.MarkDecorator:
    """Both data planes: this one in the suite, the other in `soak`."""
    both = [pytest.param(each, marks=[] if each == suite else pytest.mark.soak) for each in PLANES]
    return pytest.mark.parametrize("data_plane", both, indirect=True)


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(
    ("strategy", "options", "data_plane"),
    [
        ("async-sgd", {}, "c"),
        ("bounded-staleness", {"bound": 1}, "python"),
        ("softsync", {"contributions": 2}, "c"),
    ],
    indirect=["data_plane"],
)
def test_the_others_go_on_without_a_killed_worker(
    strategy: str, options: dict[str, Any], data_plane: str, tmp_path: Path
) -> None:
    spec = spec_of(strategy, tmp_path, **options)
    with started(spec, tmp_path) as gang:
        kill(gang, tmp_path, "worker 2")
        end = ended(gang)
        launch = gang._launch
    assert end.status == "succeeded", end.reason
    (lost,) = end.lost
    assert lost.startswith("worker 2 was lost after ")
    assert lost.endswith(" steps: killed by SIGKILL")
    assert lost in end.reason
    rows = records(launch)
    given = Counter((int(row["unit"]), int(row["worker"]), int(row["step"])) for row in rows)
    assert set(given.values()) == {1}, "a contribution was applied twice"
    units, steps = {unit for unit, _, _ in given}, range(STEPS)
    for unit in units:
        for worker in (0, 1):
            assert {step for u, w, step in given if (u, w) == (unit, worker)} == set(steps)
        of_lost = {step for u, w, step in given if (u, w) == (unit, 2)}
        assert of_lost == set(range(len(of_lost))), "what was lost is the end of its contributions"
        # It was killed in the forward pass of step 3: some of step 2 may not have left it.
        assert 2 <= len(of_lost) < len(steps)
    said = "through the data plane in C" in launch.log(launch.parties[0]).read_text()
    assert said == (data_plane == "c")
    assert (launch.result / "model.pt").exists()
    assert json.loads((launch.result / "summary.json").read_text())["test_loss"] > 0
    assert not (launch.result / "summary-2.json").exists()


def between_peers(marks: Path, **cluster: Any) -> JobSpec:
    """Without servers."""
    spec = spec_of("decentralized-async", marks)
    strategy = replace(spec.strategy, options={"codec_options": {"threshold": 1e-4}})
    telemetry = replace(spec.telemetry, updates=False)
    return replace(spec, strategy=strategy, telemetry=telemetry, cluster=replace(spec.cluster, **cluster))


@pytest.mark.usefixtures("gang_lane", "data_plane")
@planes(suite="c")
def test_peers_go_on_without_a_killed_worker(tmp_path: Path) -> None:
    spec = between_peers(tmp_path)
    with started(spec, tmp_path) as gang:
        kill(gang, tmp_path, "worker 2")
        end = ended(gang)
        launch = gang._launch
    assert end.status == "succeeded", end.reason
    (lost,) = end.lost
    assert lost.startswith("worker 2 was lost after ")
    assert lost.endswith(" steps: killed by SIGKILL")
    summaries = [json.loads(launch.summary(rank).read_text()) for rank in (0, 1)]
    assert [each["steps"] for each in summaries] == [STEPS] * 2
    data, training = load_dataset(spec.data).train, spec.training
    batches = [
        global_batch_at(step, len(data), training.global_batch, training.seed) for step in range(STEPS)
    ]
    own = sum(len(shard(batch, rank, 3)) for batch in batches for rank in (0, 1))
    of_lost = [len(shard(batch, 2, 3)) for batch in batches]
    # It was killed in the forward pass of step 3: some of step 2 may not have left it.
    possible = {own + sum(of_lost[:steps]) for steps in range(2, STEPS)}
    assert {each["samples"] for each in summaries} <= possible
    assert not launch.summary(2).exists()


@pytest.mark.usefixtures("gang_lane", "data_plane")
@planes(suite="python")
def test_a_peer_that_falls_silent_is_ended_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its link is full sooner or later, and who sends to it waits; then it is given up."""
    monkeypatch.setattr(losses, "GRACE_S", 0.0)
    with started(between_peers(tmp_path, silence_s=LEAST_SILENCE_S), tmp_path) as gang:
        kill(gang, tmp_path, "worker 1", signal.SIGSTOP)
        end = ended(gang)
    assert end.status == "succeeded", end.reason
    assert "worker 1 was lost after " in end.reason
    assert "no sign of life" in end.reason


@pytest.mark.usefixtures("gang_lane", "data_plane")
@planes(suite="c")
def test_a_worker_that_falls_silent_is_ended_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(losses, "GRACE_S", 0.0)
    spec = spec_of("async-sgd", tmp_path)
    spec = replace(spec, cluster=replace(spec.cluster, silence_s=LEAST_SILENCE_S))
    with started(spec, tmp_path) as gang:
        kill(gang, tmp_path, "worker 1", signal.SIGSTOP)
        end = ended(gang)
    assert end.status == "succeeded", end.reason
    assert "worker 1 was lost after " in end.reason
    assert "no sign of life" in end.reason


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("victim", ["worker 0", "server 1"])
def test_what_cannot_be_missed_ends_the_job(victim: str, tmp_path: Path) -> None:
    with started(spec_of("async-sgd", tmp_path, **ENDLESS), tmp_path) as gang:
        wait_until((tmp_path / "worker 0").exists, "step 3 on worker 0")
        os.kill(gang.pids[victim], signal.SIGKILL)
        end = ended(gang)
    assert (end.status, end.party, end.exit_code) == ("failed", victim, -signal.SIGKILL)
    assert f"{victim} failed: killed by SIGKILL" in end.reason


@pytest.mark.usefixtures("gang_lane")
def test_a_workers_own_error_ends_the_job(tmp_path: Path) -> None:
    spec = spec_of("async-sgd", tmp_path, **ENDLESS)
    trouble = {**spec.model.options, "trouble": "raise", "party": "worker 2"}
    with started(replace(spec, model=replace(spec.model, options=trouble)), tmp_path) as gang:
        end = ended(gang)
    assert (end.status, end.party) == ("failed", "worker 2")
    assert "this model dislikes Mondays" in end.reason


@pytest.mark.usefixtures("gang_lane")
def test_too_few_workers_for_an_update_end_the_job(tmp_path: Path) -> None:
    with started(spec_of("softsync", tmp_path, **ENDLESS, contributions=2), tmp_path) as gang:
        kill(gang, tmp_path, "worker 1")
        kill(gang, tmp_path, "worker 2")
        end = ended(gang)
    assert end.status == "failed"
    assert end.error is not None
    assert end.error["user"]["field"] == "consistency.contributions"
    assert end.error["user"]["value"] == 2
    assert "so many contributions need as many workers: 1 left" in end.reason
    assert len(end.lost) == 2


@pytest.mark.parametrize(
    ("strategy", "workers", "options", "rule"),
    [
        ("p3", 2, {}, "under every-step every worker waits for all others"),
        ("ddp", 2, {}, "under every-step every worker waits for all others"),
        ("async-sgd", 2, {"where": "beside"}, "a shard's parameters are lost with its worker"),
        ("async-sgd", 1, {"where": "dedicated", "servers": 1}, "nobody is left without the only worker"),
        ("softsync", 3, {**DEDICATED, "contributions": 3}, "as many contributions as there are workers, 3"),
        ("decentralized-async", 1, {}, "nobody is left without the only worker"),
    ],
)
def test_jobs_that_cannot_go_on_are_refused(
    strategy: str, workers: int, options: dict[str, Any], rule: str
) -> None:
    spec = job(
        strategy={"name": strategy, "options": options},
        cluster={"workers": workers, "worker_loss": "go-on"},
    )
    with pytest.raises(UserError) as refused:
        plan_of(spec)
    assert "cluster.worker_loss" in str(refused.value)
    assert rule in str(refused.value)
    assert "Use end" in str(refused.value)


def test_a_plan_that_can_go_on_is_the_same(tmp_path: Path) -> None:
    spec = spec_of("async-sgd", tmp_path)
    assert isinstance(plan_of(spec), Plan)
    assert plan_of(spec) == plan_of(replace(spec, cluster=replace(spec.cluster, worker_loss="end")))


def test_nobody_gives_a_worker_its_parameters_back_where_there_is_no_server(tmp_path: Path) -> None:
    assert isinstance(plan_of(between_peers(tmp_path)), Plan)
    with pytest.raises(
        UserError, match=r"servers give a worker that comes back its parameters.*Use go-on"
    ) as refused:
        plan_of(between_peers(tmp_path, worker_loss="rejoin"))
    assert refused.value.field == "cluster.worker_loss"
