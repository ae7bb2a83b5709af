"""Predict what a step holds in memory, in a short process of its own, so that who asks never imports torch:

    python -m engine.liveness < request.json > answer.json

The request is what `engine/plan/worker_memory.py` makes of a job. With `blocks`, the answer is the model's description
with its blocks; with a `budget` in bytes, and what is `wanted` for it (`fitting.py: Wanted`), it is `{"fitted": ...}`;
with a `room` (`largest.py: Room`) `{"largest": ...}`, of what a budget chooses where a `mixture` is asked for, or
`{"points": ...}` of the numbers of samples in `curve`; else `{"peak": ...}`. Errors, and the numbers after it, are as
those of `python -m engine.models`.
"""

# ruff: noqa: E402, F401 - everything is to be imported before the collector is on again

from __future__ import annotations

import gc

gc.disable()  # as in `engine/models/__main__.py`

import sys

from engine.lifeline import end_with
from engine.models.memory_limit import set_limit

if len(sys.argv) > 1:
    end_with(int(sys.argv[1]))

if len(sys.argv) > 2:
    set_limit(int(sys.argv[2]))

import torch._dynamo  # the first operation without values would load it

from engine.liveness.request import answer, purpose
from engine.models.answering import answered

gc.freeze()
gc.enable()

if __name__ == "__main__":
    sys.exit(answered(answer, purpose))
