"""Who waits for a slow worker waits as long as somebody goes on, and no longer."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.coordination.going import Going
from engine.protocol.messages import Lane, Message
from engine.runtime.meeting import Meeting
from engine.state.versions import Versions
from tests.engine.test_checkpoint_meeting import Wires
from tests.jobs import RESIDENTS, job, prepare

DEADLINE_S = 0.01


def until_last(signs: int) -> tuple[Callable[[], float], list[int]]:
    """Somebody goes on when he is asked for, so many times, and then no more; and the questions."""
    asked: list[int] = []

    def last_s() -> float:
        asked.append(len(asked))
        return time.monotonic() if len(asked) <= signs else -math.inf

    return last_s, asked


def test_all_hear_of_one_that_goes_on_but_not_at_each_step() -> None:
    wires, now = Wires(), [0.0]
    workers = [
        Going(wires.of(rank), rank=rank, workers=3, deadline_s=600.0, clock=lambda: now[0])
        for rank in range(3)
    ]
    for rank, each in enumerate(workers):
        wires.receivers[rank, Lane.WORKER] = each
    for step, now[0] in enumerate((1.0, 5.0, 6.0, 9.0, 10.0)):
        workers[2].begins(step)
    assert wires.log == [(peer, Message.GOES_ON, step) for step in (1, 4) for peer in (0, 1, 2)], (
        "worker 2 tells worker 0, which tells the others"
    )
    assert [each.last_s() for each in workers] == [10.0, 10.0, 10.0]
    now[0] = 11.0
    workers[0].begins(5)
    assert workers[0].last_s() == 11.0, "a shard beside a slow worker waits for it"


def test_who_has_done_all_steps_names_the_others_once_nobody_goes_on() -> None:
    last_s, asked = until_last(3)
    meeting = Meeting(Wires().of(0), rank=0, workers=2, shards=[], deadline_s=DEADLINE_S, going_s=last_s)
    with pytest.raises(TimeoutError, match="worker 1 did not come to an end of training"):
        meeting.may_leave()
    assert len(asked) == 4


def test_a_version_is_waited_for_until_nobody_goes_on() -> None:
    last_s, asked = until_last(3)
    versions = Versions(1, DEADLINE_S)
    versions.while_going(last_s)
    unit: Any = SimpleNamespace(index=0, layers=["first"])
    with pytest.raises(TimeoutError, match="version 1 of first"):
        versions.wait([unit], 1, lambda late: "worker 1")
    assert len(asked) == 4


@pytest.mark.soak
@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(
    ("strategy", "options", "checkpoint"),
    [
        ("async-sgd", {}, {}),
        ("async-sgd", {"servers": 1, "where": "dedicated"}, {"every_steps": 5}),
        ("softsync", {"contributions": 1}, {}),
        ("bounded-staleness", {"bound": 100}, {"every_steps": 5}),
        ("decentralized-async", {}, {}),
        ("diloco", {"period": 16}, {}),
        ("model-average", {"period": 16, "servers": 1, "where": "dedicated"}, {}),
    ],
)
def test_a_worker_far_behind_is_waited_for(
    strategy: str, options: dict[str, Any], checkpoint: dict[str, Any], tmp_path: Path
) -> None:
    """Worker 0 is at its end long before worker 1, which comes to its own after more than a deadline and the patience
    beyond it."""
    slow = {"worker": 1, "factor": 1.0, "pause_every_steps": 1, "pause_s": 0.7}
    spec = job(
        strategy={"name": strategy, "options": options},
        cluster={"workers": 2},
        faults={"stragglers": [slow]},
        training={"steps": 16},
        checkpoint=checkpoint,
    )
    launch = replace(prepare(spec, tmp_path), deadline_s=2.0)
    launch.write()
    gang = RESIDENTS.gang(launch)
    gang.start()
    end = gang.wait(60)
    gang.stop()
    assert end is not None
    assert end.status == "succeeded", end.reason
