"""Where workers do not wait for one another: at its trivial setting each mode is synchronous SGD, exactly; elsewhere
the job ends near what synchronous SGD ends at."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from engine.consistency.policies import policy_of
from engine.consistency.policy import Clocks
from engine.errors import UserError
from engine.plan.plan import Plan
from engine.plan.units import cut
from engine.telemetry import spool
from engine.telemetry.events import Kind, Track
from tests.jobs import Run, distance, job, plan_of, reference, succeed
from tests.traffic import assert_declared

pytestmark = pytest.mark.usefixtures("gang_lane")

FLOAT64 = {"precision": "float64"}
COLLAPSED: list[tuple[str, int, dict[str, Any]]] = [
    ("async-sgd", 1, {}),
    ("staleness-aware", 1, {}),
    ("softsync", 3, {"contributions": 3}),
    ("softsync", 2, {"contributions": 2, "where": "dedicated"}),
    ("bounded-staleness", 3, {"bound": 0, "apply": "clock"}),
    ("bounded-staleness", 2, {"bound": 0, "apply": "clock", "where": "dedicated", "servers": 1}),
]
LOOSE: list[tuple[str, int, dict[str, Any]]] = [
    ("async-sgd", 3, {}),
    ("async-sgd", 2, {"where": "dedicated", "servers": 1, "rank": "fifo"}),
    ("staleness-aware", 3, {}),
    ("softsync", 3, {"contributions": 2}),
    ("softsync", 3, {"contributions": 1}),
    ("bounded-staleness", 3, {"bound": 2}),
    ("bounded-staleness", 3, {"bound": 1, "apply": "clock"}),
]


def spec_of(strategy: str, workers: int, options: dict[str, Any], **changes: Any) -> Any:
    return job(
        strategy={"name": strategy, "options": {"slice_size": 400, **options}},
        cluster={"workers": workers},
        training=FLOAT64 | changes.pop("training", {}),
        **changes,
    )


@pytest.mark.parametrize(("strategy", "workers", "options"), COLLAPSED)
def test_the_trivial_setting_is_synchronous_sgd(
    strategy: str, workers: int, options: dict[str, Any], tmp_path: Path
) -> None:
    spec = spec_of(strategy, workers, options)
    run = succeed(spec, tmp_path)
    assert distance(run.state, reference(spec, workers)) < 1e-12
    assert_declared(run)
    assert staleness(run).keys() == {0}


@pytest.mark.parametrize(("strategy", "workers", "options"), LOOSE)
def test_nothing_is_lost_where_workers_drift(
    strategy: str, workers: int, options: dict[str, Any], tmp_path: Path
) -> None:
    """Ten steps of a small rate end near what synchronous SGD ends at, and nearer than where it began."""
    spec = spec_of(strategy, workers, options, optimizer={"name": "sgd", "learning_rate": 1e-4})
    run = succeed(spec, tmp_path)
    assert_declared(run)
    begun, ended = reference(spec, workers, steps=1), reference(spec, workers)
    moved = distance(ended, begun)
    # A gradient that counts less leaves them nearer to where they began.
    assert distance(run.state, ended) < (0.9 if strategy == "staleness-aware" else 0.1) * moved
    if options.get("apply") == "clock":
        assert max(staleness(run)) <= options["bound"]
    else:  # all compute their first step on the same version, and the first update is not everybody's
        assert max(staleness(run)) >= 1


def staleness(run: Run) -> Counter[int]:
    """How many contributions were recorded at each staleness: one for every one that a server has added."""
    found, said, added = Counter[int](), Counter[int](), 0
    for batch in spool.batches(run.launch.spool):
        for row in batch.table("staleness"):
            found[int(row["staleness"])] += int(row["count"])
            said[int(row["worker"])] += int(row["count"])
        totals = batch.table("totals")
        reduced = totals[(totals["kind"] == Kind.REDUCE) & (totals["track"] == Track.SERVER)]
        added += int(reduced["count"].sum())
    launch = run.launch
    each = 10 * len(cut(launch.plan, launch.model))
    assert said == dict.fromkeys(range(launch.job.cluster.workers), each), (
        "each worker's, of every unit in every step"
    )
    assert found.total() == added == said.total()
    return found


@pytest.mark.parametrize(
    ("strategy", "options", "changes", "words"),
    [
        ("softsync", {"contributions": 4}, {}, "from 1"),
        ("softsync", {"contributions": 0}, {}, "from 1"),
        ("bounded-staleness", {"bound": -1}, {}, "from 0"),
        ("softsync", {"contributions": 2, "own_writes": True}, {}, "each for the other's next step"),
        ("bounded-staleness", {"bound": 2, "apply": "clock", "own_writes": True}, {}, "waits for all"),
        ("bounded-staleness", {"bound": 2, "own_writes": False}, {}, "by arrival that is at once"),
        ("bounded-staleness", {"bound": 0, "apply": "clock", "own_writes": False}, {}, "everybody's are"),
        ("async-sgd", {}, {"training": {"clip_norm": 1.0}}, "norm of all gradients"),
        ("async-sgd", {}, {"training": {"deterministic": True}}, "depends on how fast"),
        ("async-sgd", {}, {"optimizer": {"name": "muon", "learning_rate": 0.1}}, "whole parameters"),
        (
            "async-sgd",
            {},
            {"overrides": [{"layers": "*", "exchange": "ring-allreduce", "returns": "none"}]},
            "different times",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    strategy: str, options: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    spec = spec_of(strategy, 3, options, **changes)
    with pytest.raises(UserError, match=words) as refused:
        plan_of(spec)
    assert refused.value.remedy


def test_where_it_cannot_hold_workers_up_reading_ones_own_writes_may_be_asked_for_or_not() -> None:
    """By default it is so where s is 1 or all workers."""
    for contributions, own_writes, waits in ((1, None, True), (3, None, True), (2, None, False), (2, False, False),
                                             (1, False, False), (3, False, False), (3, True, True)):  # fmt: skip
        plan = plan_of(spec_of("softsync", 3, {"contributions": contributions, "own_writes": own_writes}))
        assert isinstance(plan, Plan)
        policy = policy_of(plan.consistency, 3)
        behind = Clocks(contributed={0: 1, 1: 0, 2: 0}, applied={0: 0, 1: 0, 2: 0})
        assert policy.readable(0, behind) != waits
