"""Predict what a step holds in memory, in a short process of its own, so that who asks never imports torch:

    python -m engine.liveness < request.json > answer.json

The request is what `engine/plan/worker_memory.py` makes of a job. With `blocks`, the answer is the model's description
with its blocks, else `{"peak": ...}`. Errors, and the numbers after it, are as those of `python -m engine.models`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from engine.lifeline import end_with
from engine.models.memory_limit import broken, set_limit

if len(sys.argv) > 1:
    end_with(int(sys.argv[1]))

if len(sys.argv) > 2:
    set_limit(int(sys.argv[2]))

from engine.errors import UserError
from engine.liveness.request import answer


def main() -> int:
    """Standard input to standard output; what user code prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request: dict[str, Any] = json.load(sys.stdin)
    try:
        found = answer(request)
    except Exception as error:
        refusal = (
            broken(error, str(request["model"].get("name") or request["model"].get("entrypoint"))) or error
        )
        if not isinstance(refusal, UserError):
            raise
        found = {"error": refusal.to_dict()}
    with answers:
        json.dump(found, answers)
    return 1 if "error" in found else 0


if __name__ == "__main__":
    sys.exit(main())
