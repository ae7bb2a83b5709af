"""Templates: YAML job specifications, complete in themselves. The comment that each begins with says what it shows."""

from __future__ import annotations

from pathlib import Path

from engine.plan.documents import load_file
from engine.plan.job import JobSpec

FOLDER = Path(__file__).parent


def names() -> list[str]:
    """Those that there are."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(name: str) -> JobSpec:
    """The job of one of them."""
    return load_file(JobSpec, _path(name))


def summary(name: str) -> str:
    """The comment that it begins with."""
    said = []
    for line in _path(name).read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        said.append(line.removeprefix("#").strip())
    return " ".join(said)


def _path(name: str) -> Path:
    return FOLDER / f"{name}.yaml"
