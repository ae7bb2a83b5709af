"""One request in, one answer out: what the short processes that run a user's model have in common."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from engine.errors import UserError
from engine.models.memory_limit import DESCRIBED, broken


def subject(request: dict[str, Any]) -> str:
    """What errors call the model that a request names."""
    model = request["model"]
    return str(model.get("name") or model.get("entrypoint"))


def answered(
    answer: Callable[[dict[str, Any]], dict[str, Any]],
    purpose: Callable[[dict[str, Any]], str] = lambda request: DESCRIBED,
) -> int:
    """Give `answer` what comes in on standard input, and write what it returns, or the error of a job's that it raises,
    to standard output: 0, or 1 for an error. What user code prints, or writes to descriptor 1, goes to standard
    error. `purpose`: what a request asks for, as it is said where there is too little memory for it."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # for who writes below Python, and for the processes that user code starts
    request: dict[str, Any] = json.load(sys.stdin)
    try:
        found = answer(request)
    except Exception as error:
        refusal = broken(error, subject(request), purpose(request)) or error
        if not isinstance(refusal, UserError):
            raise
        found = {"error": refusal.to_dict()}
    with answers:
        json.dump(found, answers)
    return 1 if "error" in found else 0
