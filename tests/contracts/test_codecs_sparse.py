"""What codecs must hold that send some of a message's elements: which ones, at which cost, and that the others wait."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.axes.codec_sizes import BLOCK, chosen_of, listed_bytes, place_bytes
from engine.codec.base import Piece, UnitCodec, beginnings
from engine.codec.opening import opened
from engine.codec.places import packed, unpacked
from engine.codec.top_k import largest
from engine.errors import UserError
from engine.plan.encoding import encoding
from engine.tensor_bytes import as_bytes, joined, kept

SIZES = [1, 2, 3, 7, 16, 100, 1000, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5]


def opened_for(codec: str, count: int, remembers: bool = True, **options: Any) -> UnitCodec:
    piece = Piece(name="fc6", count=count, dtype=options.pop("dtype", torch.float32))
    coded = options.pop("entropy_coding", False)
    return opened(encoding(codec, options, entropy_coding=coded), piece, remembers=remembers)


def encode(codec: UnitCodec, *parts: Tensor) -> memoryview:
    """Joined as the transport does."""
    return kept(joined([as_bytes(tensor) for tensor in codec.encode(parts, beginnings(parts))]))


def travel(codec: UnitCodec, given: Tensor) -> Tensor:
    found = torch.full_like(given, 123)
    codec.decode(encode(codec, given), [found])
    return found


def normal(count: int, seed: int = 1, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, generator=generator, dtype=torch.float64).to(dtype)


def by_sorting(given: Tensor, chosen: int) -> Tensor:
    """The largest elements as a reference finds them: all are sorted, equal ones as they stand."""
    first = sorted(range(len(given)), key=lambda at: (-abs(float(given[at])), at))[:chosen]
    found = torch.zeros_like(given)
    found[first] = given[first]
    return found


@pytest.mark.parametrize("count", SIZES)
def test_places_come_back_in_as_many_bytes_as_are_declared(count: int) -> None:
    random = np.random.default_rng(count)
    for chosen in {0, 1, count // 1000, count // 20, count // 16 + 1, count // 2, count - 1, count}:
        places = np.sort(random.choice(count, chosen, replace=False))
        code = packed(places, count)
        assert len(code) == place_bytes(count, chosen) <= min(-(-count // 8), listed_bytes(count, chosen))
        assert np.array_equal(unpacked(code, count, chosen), places)


def test_places_that_no_message_has_are_refused() -> None:
    """They would be written beside the unit."""
    with pytest.raises(RuntimeError, match="1 places came where 1 of 40 elements"):
        unpacked(np.array([40, 0], np.uint8), 40, 1)
    with pytest.raises(RuntimeError, match="places of 3 elements came where 2"):
        unpacked(np.array([1, 0, 0, 0, 2, 0, 0, 0, 5, 0, 6, 0], np.uint8), BLOCK + 9, 2)
    with pytest.raises(RuntimeError, match="2 places came where 2 of"):
        unpacked(np.array([0, 0, 0, 0, 2, 0, 0, 0, 5, 0, 9, 0], np.uint8), BLOCK + 9, 2)
    with pytest.raises(RuntimeError, match="3 places came where 4 of 20"):
        unpacked(np.array([0b11100000, 0, 0], np.uint8), 20, 4)
    for first in (
        7,
        9,
    ):  # twice, and the wrong way round: the second would be counted from another part's beginning
        with pytest.raises(RuntimeError, match="places of 2 of 40 elements came that do not ascend"):
            unpacked(np.array([first, 0, 7, 0], np.uint8), 40, 2)


@pytest.mark.parametrize("value_bytes", [2, 4])
def test_a_message_is_never_longer_than_all_of_its_elements(value_bytes: int) -> None:
    for count in (*SIZES, *range(40)):
        for ratio in (0.0001, 0.01, 0.5, 0.9, 0.99, 1.0):
            chosen = chosen_of(count, ratio, value_bytes)
            assert min(1, count) <= chosen <= count
            assert chosen == count or abs(chosen - max(1, ratio * count)) <= 0.5
            assert chosen * value_bytes + place_bytes(count, chosen) <= count * value_bytes


@pytest.mark.parametrize("count", [1, 2, 3, 99, 100, 1000])
@pytest.mark.parametrize("ratio", [0.001, 0.01, 0.3])
def test_the_largest_are_sent(count: int, ratio: float) -> None:
    given = normal(count)
    assert torch.equal(
        travel(opened_for("top-k", count, ratio=ratio), given),
        by_sorting(given, max(1, round(ratio * count))),
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("count", "chosen"), [(50_000, 500), (50_000, 5000), (70_000, 200), (6400, 640)])
def test_candidates_from_a_sample_change_nothing(count: int, chosen: int, seed: int) -> None:
    """Whatever the sample meets: values without structure, rows of one size, many equal ones, nearly all zero."""
    random = np.random.default_rng(seed)
    plain = np.abs(random.standard_normal(count)).astype(np.float32)
    rows = np.where(np.arange(count) % 64 == seed, 1000 * plain, plain)
    few = np.round(plain)
    sparse = np.where(np.arange(count) < 2 * chosen, plain, 0).astype(np.float32)
    for given in (plain, rows, few, sparse, np.zeros_like(plain), np.sort(plain)):
        expected = np.sort(np.argsort(-given, kind="stable")[:chosen])
        assert np.array_equal(largest(given, chosen), expected)


def test_of_equal_elements_the_first_are_sent() -> None:
    given = torch.tensor([1.0, -2.0, 2.0, 1.0, -2.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    sent = travel(opened_for("top-k", 10, ratio=0.4), given)
    assert sent.tolist() == [1, -2, 2, 0, -2, 0, 0, 0, 0, 0]
    assert travel(opened_for("top-k", 500), torch.full((500,), -0.25)).nonzero().view(-1).tolist() == list(
        range(5)
    )
    assert not travel(opened_for("top-k", 500), torch.zeros(500)).any()


def test_what_is_kept_is_sent_when_enough_has_come_together() -> None:
    """A tenth of the size, a tenth as often, and nothing is lost."""
    codec, given = opened_for("top-k", 100), torch.full((100,), 1e-30)
    given[:2] = torch.tensor([1.0, -0.1])
    sent = torch.stack([travel(codec, given) for _ in range(440)])
    assert 40 <= int((sent[:, 1] != 0).sum()) <= 44
    assert torch.allclose(sent.sum(0)[:2] + codec.state()["rest"][:2], 440 * given[:2], rtol=1e-4)
    assert codec.state()["rest"][2:].tolist() == pytest.approx([4.4e-28] * 98, rel=1e-3)


@pytest.mark.parametrize(
    ("ratio", "bits", "count", "size"),
    [
        (0.01, 32, 50_000, 500 * 4 + 500 * 2),
        (0.01, 16, 50_000, 4 + 500 * 2 + 500 * 2),
        (0.01, 32, 800_000, 8000 * 4 + 8000 * 2 + 13 * 4),
        (0.001, 32, 800_000, 800 * 4 + 800 * 2 + 13 * 4),
        (0.1, 32, 50_000, 5000 * 4 + 50_000 // 8),
        (1, 32, 50_000, 50_000 * 4),
        (0.99, 32, 50_000, 50_000 * 4),
    ],
)
def test_what_it_costs(ratio: float, bits: int, count: int, size: int) -> None:
    options = {"ratio": ratio, "value_bits": bits}
    assert encoding("top-k", options).bytes("float32", count) == size
    assert len(encode(opened_for("top-k", count, **options), normal(count))) == size


def test_with_all_elements_it_is_exact() -> None:
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        given = normal(1000, dtype=dtype)
        assert torch.equal(travel(opened_for("top-k", 1000, ratio=1.0, dtype=dtype), given), given)


@pytest.mark.parametrize("size", [1e-44, 1e-30, 1e-6, 1.0, 1e30])
def test_half_precision_has_a_scale(size: float) -> None:
    """So that gradients which half precision takes for zero, or for infinite, are sent as any others."""
    given = normal(1000, dtype=torch.float64) * size
    codec = opened_for("top-k", 1000, False, ratio=0.1, value_bits=16, dtype=torch.float64)
    expected = by_sorting(given.float(), 100)
    assert torch.allclose(travel(codec, given).float(), expected, rtol=2.0**-11, atol=2e-45)


def test_adding_touches_what_was_sent_alone() -> None:
    given = [normal(30), normal(0), normal(300, seed=2)]
    codec = opened_for("top-k", 330, ratio=0.1)
    payload = encode(codec, *given)
    sums = [torch.full_like(part, 7.0, dtype=torch.float32) for part in given]
    codec.decode_add(payload, sums)
    expected = by_sorting(torch.cat(given), 33)
    assert torch.equal(torch.cat(sums), expected + 7)
    assert int((torch.cat(sums) != 7).sum()) == 33


@pytest.mark.parametrize(("options", "message"), [
    ({"ratio": 0.0}, "from 0.0001 to 1"),
    ({"ratio": 1.5}, "from 0.0001 to 1"),
    ({"ratio": float("nan")}, "from 0.0001 to 1"),
    ({"value_bits": 8}, "Known: 16, 32"),
])  # fmt: skip
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        encoding("top-k", options)
    assert caught.value.field == f"codec_options.{next(iter(options))}"
