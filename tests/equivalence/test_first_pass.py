"""Models whose first pass is another one than the rest: described in one process, they begin anew in each worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.equivalence.against_plain import holds, spec_of
from tests.jobs import run

pytestmark = pytest.mark.usefixtures("gang_lane")


@pytest.mark.parametrize("strategy", ["hybrid", "model-parallel"])
def test_who_cannot_be_cut_in_the_first_pass_is_told_so(strategy: str, tmp_path: Path) -> None:
    """The description was made of a later pass, so that this shows only where the model is cut."""
    end = run(spec_of("first_pass:build", strategy, 2), tmp_path).end
    assert end.error is not None
    assert end.error["user"] is not None, end.reason
    assert "strategy.name = " in end.reason
    assert "computes with 'first.weight', which it has not taken from the module's attribute" in end.reason
    assert "choose a strategy that replicates every layer" in end.reason


@pytest.mark.parametrize("strategy", ["p3", "ddp"])
def test_elsewhere_it_trains(strategy: str, tmp_path: Path) -> None:
    holds("first_pass:build", strategy, 2, tmp_path)
