"""What the processes of a job read from their machine's disk, besides the attempt's own directory.

Every machine that runs some of them needs it under the same names: on a disk that all share, or copied there. All else
that they are told is in `launch.json`, a rehearsal's profile included. Not known here: what a user's code opens by
itself. The catalogue's `text` without `paths` reads the sources of the machine's own Python, so its machines need the
same release of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from engine.plan.job import JobSpec


@dataclass(frozen=True, kw_only=True)
class OnDisk:
    """A file, or a folder with all that is below it."""

    field: str
    """The job's field that names it, e.g. `data.options.paths`."""
    path: Path
    """Absolute."""
    kind: Literal["code", "data"]
    """`code`: a folder to import from. `data`: a path among the options of a model or a data set."""


def read_by(job: JobSpec) -> list[OnDisk]:
    """What the job's processes read, in the order of its fields; each path once."""
    found: dict[Path, OnDisk] = {}
    for name, source in (("model", job.model), ("data", job.data)):
        if source.directory is not None:
            folder = Path(source.directory).absolute()
            found.setdefault(folder, OnDisk(field=f"{name}.directory", path=folder, kind="code"))
        for option, path in named(source.options):
            found.setdefault(path, OnDisk(field=f"{name}.options.{option}", path=path, kind="data"))
    return list(found.values())


def named(options: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
    """Absolute paths that options name, alone or in lists, each with its option."""
    for option, value in options.items():
        for text in value if isinstance(value, list | tuple) else [value]:
            if isinstance(text, str) and text.startswith("/"):
                yield option, Path(text)
