"""Schedules of a pipeline: in which order a stage goes forward and backward with a step's micro-batches."""

from __future__ import annotations

from typing import Literal

Action = Literal["forward", "backward"]


def actions(schedule: str, stage: int, stages: int, micro_batches: int) -> list[Action]:
    """What stage `stage` of `stages` does in one step; the n-th forward and the n-th backward are micro-batch n's.

    `gpipe`: all forward, then all backward. `1f1b`: forward until the first micro-batch can come back, then backward
    and forward in turn, so that at most stages - stage micro-batches are in flight here.
    """
    ahead = micro_batches if schedule == "gpipe" else min(micro_batches, stages - stage)
    found: list[Action] = ["forward"] * ahead
    for _ in range(micro_batches - ahead):
        found += ["backward", "forward"]
    return found + ["backward"] * ahead
