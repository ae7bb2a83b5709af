"""What a job begins with where that is another job's checkpoint. No torch here.

    start.safetensors   the other job's checkpoint, put together
    start.json          its length and CRC-32, and after which step it was made; written when that is on the disk

Both lie beside the job's own checkpoints.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.checkpoint.store import DamagedError, Written, check_written
from engine.regular import read_regular, write_whole

START = "start.safetensors"
_SAYS = "start.json"
_MOST_BYTES = 2**10


@dataclass(frozen=True, kw_only=True)
class Start:
    """Which it is (`StartSpec`), and where, on a disk that the machine of the first attempt sees."""

    job: str
    directory: Path | None
    """Of one of that job's attempts; None: the job has none any more."""
    step: int | None
    """None: the newest."""

    def to_dict(self) -> dict[str, Any]:
        """For `of`."""
        directory = None if self.directory is None else str(self.directory)
        return {"job": self.job, "directory": directory, "step": self.step}

    @classmethod
    def of(cls, said: dict[str, Any] | None) -> Start | None:
        """What `to_dict` says; None of None."""
        if said is None:
            return None
        directory = None if said["directory"] is None else Path(said["directory"])
        return cls(job=said["job"], directory=directory, step=said["step"])


def say(folder: Path, step: int, written: Written) -> None:
    """START is in `folder`, on the disk, and was made after this step. Raises OSError."""
    write_whole(folder / _SAYS, json.dumps({"step": step, **asdict(written)}).encode(), sync=True)


def begun_step(folder: Path) -> int | None:
    """After which step the checkpoint in START was made; None where there is none. Raises DamagedError where it is not
    what was written."""
    try:
        said = json.loads(read_regular(folder / _SAYS, _MOST_BYTES, root=folder))
        step = int(said.pop("step"))
    except FileNotFoundError:
        return None
    except (AttributeError, KeyError, OSError, RecursionError, TypeError, ValueError) as error:
        raise DamagedError(f"{folder / _SAYS} makes no sense: {error!r}") from error
    try:
        check_written(folder / START, said, root=folder)
    except DamagedError as error:
        raise DamagedError(f"{folder / START} {error}") from error
    return step
