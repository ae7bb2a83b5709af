"""What a job begins with where that is another job's checkpoint. No torch here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.regular import open_regular

START = "start.safetensors"
"""Beside a job's own checkpoints: the other one's, put together. It appears whole."""
STEP = "step"
"""The name of its text that says after which step that was made."""
_MOST_BYTES = 2**26
"""Of its header."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """Where it is (`StartSpec`), on a disk that the machine of the first attempt sees."""

    directory: Path
    """Of one of that job's attempts."""
    step: int | None
    """None: the newest."""

    def to_dict(self) -> dict[str, Any]:
        """For `of`."""
        return {"directory": str(self.directory), "step": self.step}

    @classmethod
    def of(cls, said: dict[str, Any] | None) -> Start | None:
        """What `to_dict` says; None of None."""
        return None if said is None else cls(directory=Path(said["directory"]), step=said["step"])


def begun_step(folder: Path) -> int | None:
    """After which step the checkpoint in START was made; None where there is none. Raises OSError, and ValueError for a
    file of another kind."""
    try:
        with open_regular(folder / START, root=folder) as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(size, _MOST_BYTES)))
    except FileNotFoundError:
        return None
    try:
        return int(header["__metadata__"][STEP])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{folder / START} does not say after which step it was made") from error
