"""A failing case as one small program: the user's file, its job, and what trains it both ways. It runs by itself, from
the repository: `python FILE.py`."""

from __future__ import annotations

import sys
from pathlib import Path
from pprint import pformat
from typing import Any

import torch

from tests.fuzz import trial
from tests.fuzz.compiled import compilable, file_of
from tests.fuzz.network import Case

_MAIN = '''
JOB = {job}
"""As a job's YAML says it; its model is this file's `build`, its data are `data`."""

if __name__ == "__main__":
    from tests.fuzz.program import show

    show(__file__, JOB)
'''


def program(case: Case, verdict: trial.Verdict, *, compiled: bool = False) -> str:
    """The source of the program for a case and what was wrong with it. `compiled`: its network was."""
    if compiled:
        case = compilable(case)
    head = f'"""{verdict.what}: a plain PyTorch loop and the engine (`python FILE` in the repository)."""\n\n'
    return head + file_of(case, compiled=compiled).source + _MAIN.format(job=pformat(case.job, width=110))


def show(path: str, job: dict[str, Any]) -> None:
    """Train the file at `path` both ways and print what comes of it; exit 1 where they differ."""
    # As each worker has: an orthogonal start, for example, has other last bits with more.
    torch.set_num_threads(1)
    here = Path(path).resolve()
    verdict = trial.Trials(here.parent).judge(job, here)
    print(f"{verdict.kind}: {verdict.what}\n{verdict.detail}".strip())
    sys.exit(verdict.kind == "failure")
