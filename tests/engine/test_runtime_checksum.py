"""Checksums tell tensors apart, and every element's turn comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from engine.instrumentation.checksum import Turns, checksum

SIZES = [0, 1, 7, 1000, 2**16, 2**16 + 3, 300_001]


def one_bit(values: Tensor) -> None:
    values.view(torch.uint8)[-1] ^= 1


def exchanged(values: Tensor) -> None:
    values[0], values[-1] = values[-1].clone(), values[0].clone()


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64])
def test_equal_tensors_have_equal_checksums(count: int, dtype: torch.dtype) -> None:
    values = torch.arange(count).to(dtype)
    assert checksum(values) == checksum(values.clone())
    whole = torch.zeros(count + 1, dtype=dtype)
    whole[1:] = values
    assert checksum(whole[1:]) == checksum(values), "wherever they lie"


@pytest.mark.parametrize("count", [c for c in SIZES if c > 1])
@pytest.mark.parametrize("change", [one_bit, exchanged])
def test_a_change_changes_the_checksum(count: int, change: Callable[[Tensor], None]) -> None:
    values = torch.arange(count).float()
    before = checksum(values)
    change(values)
    assert checksum(values) != before


@pytest.mark.parametrize(
    "counts", [{"a": 3, "b": 5}, {"a": 10_000_001, "b": 5, "c": 40_000}, {"a": 1_700_000}]
)
def test_every_element_is_looked_at_in_every_period(counts: dict[str, int]) -> None:
    rounds = Turns(counts)
    for step in range(Turns.FIRST):
        assert rounds.due(step) == {name: (0, count) for name, count in counts.items()}
    begin = Turns.FIRST + 3
    seen: dict[str, list[tuple[int, int]]] = {name: [] for name in counts}
    work: Counter[int] = Counter()
    for step in range(begin, begin + Turns.PERIOD):
        for name, (start, stop) in rounds.due(step).items():
            seen[name].append((start, stop))
            work[step] += stop - start
    for name, parts in seen.items():
        end = 0
        for start, stop in sorted(parts):
            assert start <= end
            end = max(end, stop)
        assert end == counts[name]
    assert max(work.values()) <= max(sum(counts.values()) / Turns.PERIOD + 100, 2**14 + 100)
