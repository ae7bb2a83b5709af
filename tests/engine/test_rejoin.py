"""A worker that dies and comes back joins again: in real processes, which are killed."""

from __future__ import annotations

import json
import os
import re
import signal
from collections import Counter, defaultdict
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
from engine.launch import Launch
from engine.plan.job import LEAST_SILENCE_S, ClusterSpec, JobSpec, SourceSpec
from engine.plan.restarts import LONGEST_S, MOST, pause_before
from engine.runtime.losses import joined_up
from engine.state.update_record import read
from engine.telemetry.absence import joined
from engine.telemetry.absence import lost as lost_metric
from engine.telemetry.spool import batches
from tests.engine.test_runtime_failures import USER_CODE, gone, heard, started, supervised, wait_until
from tests.jobs import job, plan_of, prepare

SERVERS, STEPS, BOUND = 2, 60, 3
DEDICATED = {"servers": SERVERS, "where": "dedicated"}
STRATEGIES: list[tuple[str, dict[str, Any]]] = [
    ("async-sgd", {}),
    ("bounded-staleness", {"bound": BOUND}),
    ("softsync", {"contributions": 2}),
]
ASYNC: tuple[str, dict[str, Any]] = STRATEGIES[0]


def spec_of(
    strategy: tuple[str, dict[str, Any]],
    marks: Path,
    *,
    steps: int = STEPS,
    cluster: dict[str, Any] | None = None,
    **model: Any,
) -> JobSpec:
    """Worker 2 leaves a mark in each of its lives; worker 0 waits for that of life `awaits`, so that training is not
    over before."""
    name, options = strategy
    return job(
        model={
            "entrypoint": "returning:build",
            "directory": str(USER_CODE),
            "options": {"marks": str(marks), **model},
        },
        strategy={"name": name, "options": {**DEDICATED, **options}},
        cluster={"workers": 3, "worker_loss": "rejoin", "restart_pause_s": 0.1, **(cluster or {})},
        training={"steps": steps},
        evaluation={"every_epochs": None, "at_end": True},
        telemetry={"updates": True},
    )


def signalled(gang: Gang, marks: Path, life: int = 0, how: signal.Signals = signal.SIGKILL) -> None:
    """Worker 2 gets a signal in its step 3, or in a later life when it has contributed a step."""
    mark = marks / f"worker 2.{life}"
    wait_until(lambda: gang.wait(0.01) is not None or mark.exists(), f"the mark of life {life}")
    os.kill(gang.pids["worker 2"], how)


def ended(gang: Gang, status: str = "succeeded") -> GangEnd:
    end = gang.wait(90.0)
    assert end is not None, "the job has not ended"
    assert gone(gang.pids.values())
    assert end.status == status, end.reason
    return end


def records(launch: Launch) -> np.ndarray:
    return np.concatenate([read(launch.updates(shard)) for shard in range(SERVERS)])


def joined_at(end: GangEnd) -> list[int]:
    """The steps at which incarnations 1, 2, ... have joined, as people are told."""
    found = [re.fullmatch(r"worker 2 joined again at step (\d+) \(incarnation (\d+)\)", s) for s in end.lost]
    steps = [(int(match[2]), int(match[1])) for match in found if match]
    assert [number for number, _ in steps] == list(range(1, len(steps) + 1))
    return [step for _, step in steps]


def check(launch: Launch, end: GangEnd, lives: int) -> None:
    """Nothing is applied twice, the others' contributions all are, and each life's are of steps without a gap."""
    rows = records(launch)
    given = Counter((int(row["unit"]), int(row["worker"]), int(row["step"])) for row in rows)
    assert set(given.values()) == {1}, "a contribution was applied twice"
    steps_of: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for row in rows:
        key = int(row["unit"]), int(row["worker"]), int(row["incarnation"])
        steps_of[key].append(int(row["step"]))
    firsts = [0, *joined_at(end)]
    assert len(firsts) == lives
    units = {unit for unit, _, _ in given}
    assert {key[1:] for key in steps_of} == {(0, 0), (1, 0), *((2, life) for life in range(lives))}
    for unit in units:
        for worker in (0, 1):
            assert sorted(steps_of[unit, worker, 0]) == list(range(STEPS))
        for life, first in enumerate(firsts):
            made = sorted(steps_of[unit, 2, life])
            assert made == list(range(first, first + len(made))), "some step in between is missing"
            until = firsts[life + 1] if life + 1 < lives else STEPS
            assert 0 < len(made) <= until - first
            if until == STEPS:
                assert len(made) == until - first, "the last life contributes to the end"


def check_bound(launch: Launch) -> None:
    """What a worker computed in step c on a version of a unit has all that was applied of steps before c - BOUND."""
    by_unit: dict[int, list[Any]] = defaultdict(list)
    for row in records(launch):
        by_unit[int(row["unit"])].append(row)
    for rows in by_unit.values():
        for row in rows:
            needed = [int(r["version"]) for r in rows if r["step"] + BOUND < row["step"]]
            assert max(needed, default=0) <= row["read"]


def samples_of(contributions: set[tuple[int, int]]) -> int:
    """Of workers in steps."""
    training, samples = spec_of(ASYNC, Path()).training, len(load_dataset(SourceSpec(name="digits")).train)
    batches = {
        step: global_batch_at(step, samples, training.global_batch, training.seed)
        for step in {step for _, step in contributions}
    }
    return sum(len(shard(batches[step], worker, 3)) for worker, step in contributions)


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("strategy", STRATEGIES, ids=[name for name, _ in STRATEGIES])
def test_a_killed_worker_joins_again(strategy: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    with started(spec_of(strategy, tmp_path), tmp_path) as gang:
        signalled(gang, tmp_path)
        end = ended(gang)
        launch = gang._launch
    lost, back = end.lost
    assert re.fullmatch(r"worker 2 was lost after \d+ steps: killed by SIGKILL", lost)
    assert end.reason == f"training finished; {lost}; {back}"
    check(launch, end, lives=2)
    if strategy[0] == "bounded-staleness":
        check_bound(launch)
    summaries = [json.loads(launch.summary(rank).read_text()) for rank in range(3)]
    assert [summary["steps"] for summary in summaries] == [STEPS] * 3
    assert (launch.result / "model.pt").exists()
    assert summaries[0]["test_loss"] > 0
    made = {(int(row["worker"]), int(row["step"])) for row in records(launch)}
    assert {summary["samples"] for summary in summaries} == {samples_of(made)}
    told = {
        (batch.metrics[int(row["name"])], int(row["step"]), int(row["value"]))
        for batch in batches(launch.spool)
        for row in batch.table("metrics")
        if batch.metrics[int(row["name"])].startswith("worker ")
    }
    assert (joined(2), 1, joined_at(end)[0]) in told
    assert {(name, life) for name, life, _ in told} == {(lost_metric(2), 0), (joined(2), 1)}
    said = launch.log(launch.parties[2]).read_text()
    assert f"worker 2 contributes again from step {joined_at(end)[0]} on" in said


@pytest.mark.usefixtures("gang_lane")
def test_a_worker_joins_again_as_often_as_it_may(tmp_path: Path) -> None:
    spec = spec_of(STRATEGIES[1], tmp_path, awaits=2, held=True, cluster={"restarts": 2})
    with started(spec, tmp_path) as gang:
        signalled(gang, tmp_path, life=0)
        signalled(gang, tmp_path, life=1)
        end = ended(gang)
        launch = gang._launch
    assert [" was lost after " in sentence for sentence in end.lost] == [True, False, True, False]
    check(launch, end, lives=3)
    check_bound(launch)


@pytest.mark.usefixtures("gang_lane")
def test_a_worker_that_is_lost_once_more_is_missed_as_under_go_on(tmp_path: Path) -> None:
    spec = spec_of(ASYNC, tmp_path, steps=STEPS, cluster={"restarts": 1})
    with started(spec, tmp_path) as gang:
        signalled(gang, tmp_path, life=0)
        signalled(gang, tmp_path, life=1)
        end = ended(gang)
    assert [" was lost after " in sentence for sentence in end.lost] == [True, False, True]
    assert not gang._launch.summary(2).exists()


@pytest.mark.usefixtures("gang_lane")
def test_a_worker_that_falls_silent_is_ended_and_joins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(losses, "GRACE_S", 0.0)
    spec = spec_of(ASYNC, tmp_path, cluster={"silence_s": LEAST_SILENCE_S})
    with started(spec, tmp_path) as gang:
        signalled(gang, tmp_path, how=signal.SIGSTOP)
        end = ended(gang)
    assert "no sign of life" in end.lost[0]
    check(gang._launch, end, lives=2)


@pytest.mark.usefixtures("gang_lane")
def test_a_worker_with_an_error_of_its_own_joins_again(tmp_path: Path) -> None:
    with started(spec_of(ASYNC, tmp_path, failing=1), tmp_path) as gang:
        end = ended(gang)
    assert "OSError: the disk of this machine is gone" in end.lost[0]
    check(gang._launch, end, lives=2)
    kept = json.loads((tmp_path / "errors" / "worker-2.0.json").read_text())
    assert kept["type"] == "OSError"


@pytest.mark.usefixtures("gang_lane")
def test_an_error_that_no_start_cures_ends_the_job(tmp_path: Path) -> None:
    spec = spec_of(ASYNC, tmp_path, failing=9, awaits=9, cluster={"restarts": 1})
    with started(spec, tmp_path) as gang:
        end = ended(gang, "failed")
    assert end.party == "worker 2"
    assert end.reason.startswith("worker 2 failed: OSError: the disk of this machine is gone")
    assert joined_at(end) == [int(re.findall(r"at step (\d+)", end.reason)[0])]


@pytest.mark.usefixtures("gang_lane")
def test_what_the_engine_finds_wrong_ends_the_job_at_once(tmp_path: Path) -> None:
    spec = spec_of(ASYNC, tmp_path, steps=100_000)
    trouble = {"marks": str(tmp_path), "trouble": "nan", "party": "worker 2", "pause_s": 0.02}
    troubled = replace(spec.model, entrypoint="trouble:build", options=trouble)
    with started(replace(spec, model=troubled), tmp_path) as gang:
        end = ended(gang, "failed")
    assert end.error is not None
    assert end.error["type"] == "TrainingError"
    assert not joined_at(end)


@pytest.mark.usefixtures("gang_lane")
def test_a_model_that_begins_with_something_else_ends_the_job(tmp_path: Path) -> None:
    """Nobody hands over what is not trained, so the worker would train with it."""
    with started(spec_of(ASYNC, tmp_path, moody=True), tmp_path) as gang:
        signalled(gang, tmp_path)
        end = ended(gang, "failed")
    assert end.party == "worker 2"
    assert "buffers, or its parameters that are not trained, are not what they were" in end.reason


@pytest.mark.usefixtures("gang_lane")
def test_an_injected_fault_is_the_first_process_s(tmp_path: Path) -> None:
    prepare(spec_of(ASYNC, tmp_path), tmp_path)
    with supervised(tmp_path, fault="worker 2/4/exit") as program:
        heard(program, 60)
        end = heard(program, 90)
    assert end["status"] == "succeeded", end["reason"]
    how = "its connections closed|its control connection broke"  # it broke where something was unread
    assert re.fullmatch(rf"worker 2 was lost after [45] steps: ({how}) .*", end["lost"][0])
    assert re.fullmatch(r"worker 2 joined again at step [45] \(incarnation 1\)", end["lost"][1])


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("victim", ["worker 0", "server 1"])
def test_what_cannot_be_missed_ends_the_job(victim: str, tmp_path: Path) -> None:
    with started(spec_of(ASYNC, tmp_path, awaits=0, steps=100_000), tmp_path) as gang:
        wait_until((tmp_path / "worker 2.0").exists, "step 3 on worker 2")
        os.kill(gang.pids[victim], signal.SIGKILL)
        end = ended(gang, "failed")
    assert (end.party, end.exit_code) == (victim, -signal.SIGKILL)


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("worker_loss", ["go-on", "rejoin"])
def test_a_worker_that_is_lost_before_all_are_ready_ends_the_job(worker_loss: str, tmp_path: Path) -> None:
    with started(spec_of(ASYNC, tmp_path, cluster={"worker_loss": worker_loss}), tmp_path) as gang:
        os.kill(gang.pids["worker 1"], signal.SIGKILL)
        end = ended(gang, "failed")
    assert (end.party, end.exit_code) == ("worker 1", -signal.SIGKILL)


@pytest.mark.usefixtures("gang_lane")
def test_too_few_workers_for_an_update_end_the_job(tmp_path: Path) -> None:
    """Even where they might come back."""
    spec = spec_of(STRATEGIES[2], tmp_path, cluster={"restart_pause_s": 60.0})
    with started(spec, tmp_path) as gang:
        signalled(gang, tmp_path)
        os.kill(gang.pids["worker 1"], signal.SIGKILL)
        end = ended(gang, "failed")
    assert end.error is not None
    assert end.error["user"]["field"] == "consistency.contributions"
    assert "so many contributions need as many workers: 1 left" in end.reason


@pytest.mark.usefixtures("gang_lane")
def test_who_comes_back_when_training_is_over_ends_quietly(tmp_path: Path) -> None:
    spec = spec_of(ASYNC, tmp_path, awaits=0, begins=str(tmp_path / "result" / "summary.json"))
    with started(spec, tmp_path) as gang:
        signalled(gang, tmp_path)
        end = ended(gang)
    assert end.lost[1] == "worker 2 came back when training was over (incarnation 1)"


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("strategy", STRATEGIES, ids=[name for name, _ in STRATEGIES])
def test_who_comes_back_when_nobody_contributes_any_more_does_not_either(
    strategy: tuple[str, dict[str, Any]], tmp_path: Path
) -> None:
    """Worker 0 evaluates meanwhile what all have contributed to, and would save something else than others hold."""
    spec = spec_of(
        strategy,
        tmp_path,
        awaits=0,
        begins=str(tmp_path / "evaluating"),
        evaluates=str(tmp_path / "joined" / "worker-2.1.json"),
    )
    with started(spec, tmp_path) as gang:
        signalled(gang, tmp_path)
        end = ended(gang)
    assert end.lost[1] == "worker 2 came back when training was over (incarnation 1)"
    assert not records(gang._launch)["incarnation"].any()


@pytest.mark.parametrize(
    ("strategy", "workers", "options", "rule"),
    [
        ("p3", 2, {}, "under every-step every worker waits for all others"),
        ("async-sgd", 2, {"where": "beside"}, "a shard's parameters are lost with its worker"),
        ("softsync", 3, {**DEDICATED, "contributions": 3}, "as many contributions as there are workers, 3"),
    ],
)
def test_jobs_that_cannot_go_on_meanwhile_are_refused(
    strategy: str, workers: int, options: dict[str, Any], rule: str
) -> None:
    spec = job(
        strategy={"name": strategy, "options": options},
        cluster={"workers": workers, "worker_loss": "rejoin"},
    )
    with pytest.raises(UserError, match=r"cluster\.worker_loss = 'rejoin'") as refused:
        plan_of(spec)
    assert rule in str(refused.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("restarts", 0),
        ("restarts", MOST + 1),
        ("restart_pause_s", -1.0),
        ("restart_pause_s", float("nan")),
        ("restart_pause_s", float("inf")),
    ],
)
def test_what_is_no_number_of_restarts_and_no_pause_is_refused(field: str, value: float) -> None:
    with pytest.raises(UserError) as refused:
        ClusterSpec(**{field: value})  # type: ignore[arg-type]
    assert refused.value.field == field


def test_steps_that_several_servers_have_seen_count_once() -> None:
    assert joined_up([(0, 5), (8, 20), (0, 6), (8, 19)]) == [(0, 6), (8, 20)]
    assert joined_up([(3, 3), (0, 4), (2, 7)]) == [(0, 7)]
    assert joined_up([]) == []


def test_each_pause_is_twice_as_long_up_to_a_limit() -> None:
    assert [pause_before(number, 1.0) for number in (1, 2, 3, 4)] == [1.0, 2.0, 4.0, 8.0]
    assert pause_before(MOST, 1.0) == LONGEST_S
