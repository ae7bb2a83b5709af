"""Puts together what a job begins with of another job's checkpoint, before the first attempt has processes.

    python -m engine.runtime.start ATTEMPT

It writes one file beside the job's own checkpoints, with whole tensors, whatever the other job's workers, servers and
slices were, and then the sum of that file. Later attempts begin with the same file, so the other job may be removed. A
process of its own, because who starts a gang loads no torch. Memory: the model, its optimizer's state, and of each
worker its buffers. On an error there is no such file; it is the last line on standard error, as JSON.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

from engine.checkpoint import part as parts
from engine.checkpoint.start import START, Start, say
from engine.checkpoint.store import kept
from engine.errors import UserError
from engine.launch import Launch
from engine.plan.checkpoint_rules import check_fits
from engine.runtime.export import SavedCut

_FIELD = "checkpoint.start"
_BESIDE = "start-"


def put_together(launch: Launch) -> None:
    """Raises UserError where the checkpoint is not there, is not whole, or is none of such a model and optimizer."""
    start, folder = launch.start, launch.checkpoint_folder
    assert start is not None
    source = _source(start)
    check_fits((source.job, source.model), (launch.job, launch.model))
    step = _step(source, start)
    try:
        whole = SavedCut(source, step).whole()
    except UserError as error:
        raise UserError(f"{_FIELD}.step", step, error.rule, error.remedy) from None
    except (KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
        rule = f"that checkpoint cannot be read (the other job may have removed it meanwhile): {error!r}"
        raise UserError(
            f"{_FIELD}.step", step, rule, "Name another one, or let that job keep more"
        ) from error
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for left in folder.glob(f"{_BESIDE}*"):  # by an attempt that was stopped meanwhile
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_BESIDE, dir=folder) as beside:
        written = parts.write(whole, Path(beside) / START)
        (Path(beside) / START).replace(folder / START)
    say(folder, step, written)


def _source(start: Start) -> Launch:
    remedy = "Name a job that is still there"
    if start.directory is None:
        rule = "that job was removed, or never began, before this one did"
        raise UserError(f"{_FIELD}.job", start.job, rule, remedy)
    try:
        return Launch.read(start.directory)
    except (KeyError, OSError, TypeError, ValueError) as error:
        rule = f"the files of that job's attempt in {start.directory} cannot be read: {error}"
        raise UserError(f"{_FIELD}.job", start.job, rule, remedy) from None


def _step(source: Launch, start: Start) -> int:
    """That is asked for, or the newest."""
    if start.step is not None:
        return start.step
    found = kept(source.checkpoint_folder)
    if not found:
        rule = "that job has no checkpoint (any more)"
        raise UserError(f"{_FIELD}.job", start.job, rule, "Name a job with one")
    return found[0].step


def main() -> int:
    """0, or 1 for an error."""
    try:
        put_together(Launch.read(Path(sys.argv[1])))
    except UserError as error:
        print(json.dumps(error.to_dict()), file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
