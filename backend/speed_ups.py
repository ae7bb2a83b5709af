"""What is said of speed-ups below jobs side by side: over which job each one is, and why others have none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from backend.schemas.telemetry import SpeedUp

EQUAL = {"strong": "global batch (strong scaling)", "weak": "batch per worker (weak scaling)"}
"""What two jobs have in common whose throughputs are compared."""


def sentences(names: Sequence[str], faster: Sequence[SpeedUp | None]) -> Iterator[str]:
    """Of all jobs but the first, which is the baseline; `faster`: their speed-ups over it, in the same order as their
    names."""
    baseline, *others = names
    for name, found in zip(others, faster, strict=True):
        if found is not None and found.kind is not None and found.comparable:
            yield f"The speed-up of {name} is over {baseline}; both have the same {EQUAL[found.kind]}."
        if found is not None and found.why_not:
            yield f"{name}: {found.why_not}"
