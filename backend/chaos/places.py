"""Where attempts lie that somebody kills: in the server's data directory, or on the nodes of a Ray cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from backend.chaos.ray_nodes import RayNodes
from backend.executors.ray_gang import place_of


@dataclass(frozen=True, kw_only=True)
class Places:
    """Of one server."""

    data_dir: Path
    nodes: RayNodes | None = None
    """None: all is on the server's own machine."""

    def attempts(self) -> list[Path]:
        """Directories as the attempts' rows have them."""
        return sorted(self.data_dir.glob("jobs/*/*"))

    def of(self, attempt: Path) -> list[Path]:
        """The directories in which the attempt's processes run."""
        if self.nodes is None:
            return [attempt]
        place = place_of(attempt)
        return [path for node in sorted(self.nodes.folder.glob("node-*")) if (path := node / place).is_dir()]

    def all(self) -> list[tuple[Path, Path]]:
        """Each attempt, and each directory in which its processes run."""
        return [(attempt, path) for attempt in self.attempts() for path in self.of(attempt)]
