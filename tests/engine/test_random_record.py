"""The record of random states tells apart what every generator has drawn."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.inputs.drawn import drawn, taken_back
from engine.state.random_record import RandomRecord, digest, read


@pytest.mark.parametrize(
    "draws",
    [
        random.random,
        lambda: random.gauss(0, 1),
        np.random.random,
        np.random.normal,
        lambda: torch.rand(1),
    ],
)
def test_a_number_that_is_drawn_shows(draws: Callable[[], Any]) -> None:
    """Also the second one of a pair, which NumPy and Python make with the first."""
    with taken_back():
        before = digest()
        assert digest() == before, "who looks draws nothing"
        draws()
        once = digest()
        draws()
        assert len({before, once, digest()}) == 3
    assert digest() == before, "and the same states are the same"


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.Philox, np.random.SFC64, np.random.MT19937])
def test_so_it_does_where_numpy_draws_with_another_generator(kind: Callable[[int], Any]) -> None:
    usual = np.random.get_bit_generator()
    np.random.set_bit_generator(kind(1))
    try:
        before, seen = digest(), drawn()
        with taken_back():
            np.random.normal()
            once = digest()
            assert drawn() != seen
            np.random.normal()
            assert len({before, once, digest()}) == 3
        assert (digest(), drawn()) == (before, seen)
    finally:
        np.random.set_bit_generator(usual)


def test_what_a_killed_worker_has_recorded_is_in_the_file(tmp_path: Path) -> None:
    with taken_back():
        record = RandomRecord(tmp_path / "random", torch.device("cpu"))
        first = digest()
        record.add(7)
        torch.rand(1)
        record.add(8)
        assert read(tmp_path / "random") == {7: first, 8: digest()}
        record.close()
