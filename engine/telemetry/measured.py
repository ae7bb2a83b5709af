"""Of which model an accuracy is, where workers drift: metrics that worker 0 records beside each evaluation.

Between two steps no two workers hold the same model then, so worker 0 measures its own. At the end all of them have the
same from the servers. A unit's version counts its updates; where workers drift, a model's units have different ones.
"""

from __future__ import annotations

from collections.abc import Mapping

COMMON = "measured_common"
"""1 where all workers hold the model that was measured, 0 where it is worker 0's own."""
LEAST = "measured_version_least"
"""The version of the unit of that model that has seen the fewest updates."""
MOST = "measured_version_most"
"""... and of the one that has seen the most."""

NAMES = (COMMON, LEAST, MOST)


def metrics_of(*, common: bool, versions: tuple[int, int]) -> dict[str, float]:
    """What is recorded of a model; `versions`: the least and the most."""
    return {COMMON: float(common), LEAST: float(versions[0]), MOST: float(versions[1])}


def words(step: int, found: Mapping[str, float]) -> str | None:
    """For a person, of a model that was measured after worker 0's `step` steps; None where nothing was recorded, since
    all workers hold the same in every step."""
    if not found.keys() >= {*NAMES}:
        return None
    least, most = int(found[LEAST]), int(found[MOST])
    at = f"version {most}" if least == most else f"versions {least} to {most}"
    whose = "the model that all workers end with" if found[COMMON] else "worker 0's own model"
    return f"{whose}, after its step {step}, its units at {at}"
