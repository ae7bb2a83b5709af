"""What the local executor's handle says: the attempt's directory, and the process that looks after it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from backend.executors.base import Handle
from backend.executors.process import Identity
from engine.errors import UserError
from engine.plan.serde import from_plain

NAME = "local"


@dataclass(frozen=True, kw_only=True)
class Supervised:
    """An attempt on this machine."""

    directory: Path
    """The attempt's directory."""
    identity: Identity
    """Of the process that looks after the attempt."""

    @classmethod
    def of(cls, handle: Handle) -> Supervised:
        """Raises UserError for a handle of another executor, and for one that another version wrote."""
        handle.check_is_of(NAME)
        words = dict(handle.data)
        directory = words.pop("directory", None)
        if not isinstance(directory, str):
            raise UserError(
                "handle.directory",
                directory,
                "must be the path of the attempt's directory",
                "Run the version of this program that launched the attempt",
            )
        return cls(directory=Path(directory), identity=from_plain(Identity, words))

    def handle(self) -> Handle:
        return Handle(executor=NAME, data={"directory": str(self.directory), **asdict(self.identity)})
