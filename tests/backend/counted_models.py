"""Users' models that say how often they were described."""

from __future__ import annotations

from pathlib import Path


def counts(directory: Path, body: str) -> dict[str, str]:
    """A model that writes a line for each time that it is described, and goes on with `body`."""
    (directory / "counted.py").write_text(
        "import os, pathlib, time\n"
        "with pathlib.Path(__file__).with_suffix('.pids').open('a') as file:\n"
        "    print(os.getpid(), file=file)\n"
        f"def build():\n    {body}\n"
    )
    return {"entrypoint": "counted:build", "directory": str(directory)}


def described(directory: Path) -> list[int]:
    """The processes that described it."""
    path = directory / "counted.pids"
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []
