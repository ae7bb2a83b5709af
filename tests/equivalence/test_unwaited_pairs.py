"""Per-layer composition where nobody waits for another worker's updates: every pair of choices that such a job can hold
is trained."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.equivalence.test_composition import assert_close, by_layer, trained, unwaited_rows
from tests.pairs import KINDS, own_pace


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workers", [1, 2])
def test_every_pair_of_which_nobody_waits_for_the_other_is_trained(
    workers: int, kind: str, tmp_path: Path
) -> None:
    """With one worker and exact codecs as one process; with two, which find each other's updates late, near it."""
    rows = by_layer(unwaited_rows(kind))
    run, far = trained(rows, workers, tmp_path, name="decentralized-async", options={"codec": "fp32"})
    assert run.plan.consistency == own_pace()
    if workers == 1:
        assert_close(far, bound=1e-11, kind=kind)
    else:
        assert 0 < far <= 0.5
