"""What a job begins with where that is another job's checkpoint. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

START, START_SAYS = "start.safetensors", "start.json"
"""Beside a job's own checkpoints: the other one's, put together, and after which step that was made."""


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
