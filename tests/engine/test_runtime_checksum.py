"""Checksums tell tensors apart, and every element's turn comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from engine.instrumentation.checksum import _ROW, Turns, _row_sums, _sums_of_products, _weights, checksum

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


def within_a_row(values: Tensor, chance: torch.Generator) -> None:
    """As a sort or a roll of one row of a matrix would."""
    start = int(torch.randint(len(values) - 400, (), generator=chance))
    values[start : start + 400] = values[start : start + 400][torch.randperm(400, generator=chance)]


def two_neighbours(values: Tensor, chance: torch.Generator) -> None:
    start = int(torch.randint(len(values) - 2, (), generator=chance))
    values[start : start + 2] = values[start : start + 2].flip(0)


def two_anywhere(values: Tensor, chance: torch.Generator) -> None:
    one, other = torch.randperm(len(values), generator=chance)[:2].tolist()
    values[one], values[other] = values[other].clone(), values[one].clone()


def all_of_them(values: Tensor, chance: torch.Generator) -> None:
    values[:] = values[torch.randperm(len(values), generator=chance)]


@pytest.mark.parametrize("permute", [within_a_row, two_neighbours, two_anywhere, all_of_them])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("count", [20_000, 200_003])
def test_a_permutation_changes_the_checksum(
    permute: Callable[[Tensor, torch.Generator], None], dtype: torch.dtype, count: int
) -> None:
    chance = torch.Generator().manual_seed(5)
    values = torch.randn(count, dtype=dtype, generator=chance)
    seen = {int(checksum(values))}
    for _ in range(30):
        permute(values, chance)
        seen.add(int(checksum(values)))
    assert len(seen) == 31


PATTERNS: dict[str, tuple[list[float], list[float]]] = {
    "signs": ([3.0, -3.0], [-3.0, 3.0]),
    "a mask": ([0.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0]),
    "a mask that moves": ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]),
    "evenly spaced": ([1.0, 1.5, 1.25], [1.25, 1.0, 1.5]),
}


@pytest.mark.parametrize("how", PATTERNS)
@pytest.mark.parametrize("spread", [1, 2, 509, 1021, 1024])
@pytest.mark.parametrize("times", [1, 2, 16])
def test_so_do_regular_ones(how: str, spread: int, times: int) -> None:
    """What sums of words, or of words times their place, would not tell apart. `spread`: words between them."""
    before, after = (torch.ones(100_000, dtype=torch.float64) for _ in range(2))
    for values, pattern in zip((before, after), PATTERNS[how], strict=True):
        for at in range(times):
            place = 7 + at * 5000
            values[place : place + spread * len(pattern) : spread] = torch.tensor(
                pattern, dtype=torch.float64
            )
    assert sorted(before.tolist()) == sorted(after.tolist())
    assert checksum(before) != checksum(after)


def test_row_sums_are_the_same_where_integer_matrices_have_no_product() -> None:
    piece = torch.randint(-(2**62), 2**62, (100, _ROW))
    assert torch.equal(_row_sums(piece), _sums_of_products(piece, _weights(piece.device)))


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
