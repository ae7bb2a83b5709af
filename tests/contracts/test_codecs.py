"""What every codec must hold: what returns, what it weighs, and what it does to odd tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from engine.axes.codec import CODEC
from engine.codec.base import Piece, UnitCodec, beginnings
from engine.codec.opening import opened
from engine.plan.description import DTYPE_BYTES
from engine.plan.encoding import encoding
from engine.tensor_bytes import as_bytes, joined, kept

NAMES = [m.name for m in CODEC if m.available and not m.traits & {"feedback", "random", "own", "votes"}]
"""Those that remember nothing; of the others `test_codecs_feedback.py`, `test_codecs_random.py`,
`test_codecs_momentum.py` and `test_codecs_votes.py` ask."""
LOSSLESS = [name for name in NAMES if "lossless" in CODEC[name].traits]
RELATIVE = {"fp16": 2.0**-11, "bf16": 2.0**-8}
"""Largest relative error of one element in the codec's normal range: half a unit in the last place."""
TYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]

each = pytest.mark.parametrize("name", NAMES)


def codec(name: str, parts: Sequence[Tensor]) -> UnitCodec:
    """Opened for a unit of these parts."""
    piece = Piece(name="layer", count=sum(map(len, parts)), dtype=parts[0].dtype)
    return opened(encoding(name), piece)


def encode(made: UnitCodec, parts: Sequence[Tensor]) -> memoryview:
    """Joined as the transport does."""
    return kept(joined([as_bytes(tensor) for tensor in made.encode(parts, beginnings(parts))]))


def travel(name: str, parts: list[Tensor]) -> list[Tensor]:
    """Encode, decode into fresh memory."""
    made = codec(name, parts)
    found = [torch.full_like(part, 123) for part in parts]
    made.decode(encode(made, parts), found)
    return found


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)


def same(left: Tensor, right: Tensor) -> bool:
    """Bit for bit, so that -0 is not 0 and NaN is NaN."""
    return torch.equal(left.view(torch.uint8), right.view(torch.uint8))


@pytest.mark.parametrize("name", [m.name for m in CODEC if m.available])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_it_keeps_as_much_of_each_element_as_its_row_says(name: str, dtype: torch.dtype) -> None:
    parts = [normal(700, dtype=dtype)]
    made = codec(name, parts)
    encode(made, parts)
    held = [tensor for tensor in made.state().values() if tensor.numel() > 1]
    assert sum(map(len, held)) == encoding(name).kept * 700
    assert all(tensor.dtype == (dtype if dtype.itemsize >= 4 else torch.float32) for tensor in held)


@pytest.mark.parametrize("name", [m.name for m in CODEC if m.available])
def test_a_unit_of_which_nobody_computed_a_gradient_is_an_empty_message(name: str) -> None:
    """And what comes then travels as ever."""
    given = normal(3000)
    made, fresh = codec(name, [given]), codec(name, [given])
    empty = encode(made, [])
    assert not empty
    made.decode(empty, [])
    made.decode_add(empty, [])
    for _ in range(2 if "random" in CODEC[name].traits else 1):  # whose messages have a number
        assert len(encode(made, [given])) == len(encode(fresh, [given]))


def test_every_lossy_codec_has_a_bound() -> None:
    assert set(RELATIVE) == set(NAMES) - set(LOSSLESS)


ODD = {
    "zero": torch.zeros(5),
    "negative zero": torch.full((3,), -0.0),
    "constant": torch.full((7,), 0.25),
    "one element": torch.tensor([-3.5]),
    "empty": torch.empty(0),
    "infinite": torch.tensor([math.inf, -math.inf, 1.0]),
    "not a number": torch.tensor([math.nan, 1.0]),
}


@each
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("tensor", ODD.values(), ids=ODD)
def test_odd_tensors_come_back_as_they_are(name: str, dtype: torch.dtype, tensor: Tensor) -> None:
    """All of these are exact in every codec of this list; what is not finite stays so, and is seen."""
    part = tensor.to(dtype)
    (found,) = travel(name, [part])
    assert torch.equal(found.isnan(), part.isnan())
    assert same(found[~part.isnan()], part[~part.isnan()])


@pytest.mark.parametrize("name", LOSSLESS)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_lossless_is_bitwise_and_costs_no_copy(name: str, dtype: torch.dtype) -> None:
    parts = [normal(1000, dtype=dtype) * 10.0**9, normal(3, dtype=dtype) * 10.0**-9]
    assert all(map(same, travel(name, parts), parts))
    encoded = codec(name, parts).encode(parts, beginnings(parts))
    assert [e.data_ptr() for e in encoded] == [p.data_ptr() for p in parts]


@pytest.mark.parametrize("name", RELATIVE)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_lossy_stays_within_its_bound(name: str, dtype: torch.dtype) -> None:
    part = normal(10_000, dtype=dtype)
    part = part[part.abs() > 2.0**-14]
    (found,) = travel(name, [part])
    assert found.dtype == dtype
    assert float(((found - part) / part).abs().max()) <= RELATIVE[name]
    (again,) = travel(name, [found])
    assert same(again, found), "what has been rounded once is not rounded again"


def test_bf16_has_the_range_of_float32() -> None:
    """A codec with as many bytes as fp16, and nothing of that one's overflow."""
    (found,) = travel("bf16", [torch.tensor([2.0**100, -(2.0**100), 2.0**-100])])
    assert found.tolist() == [2.0**100, -(2.0**100), 2.0**-100]


def test_fp16_overflows_to_infinity_and_underflows_to_zero() -> None:
    """As its description says; the loss check sees the first."""
    (found,) = travel("fp16", [torch.tensor([70_000.0, -70_000.0, 1e-8])])
    assert found.tolist() == [math.inf, -math.inf, 0.0]


@each
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_it_weighs_what_the_plan_declares(name: str, dtype: torch.dtype) -> None:
    parts = [normal(5, dtype=dtype), normal(0, dtype=dtype), normal(8, dtype=dtype)]
    encoded = codec(name, parts).encode(parts, beginnings(parts))
    assert all(part.is_contiguous() and part.ndim == 1 for part in encoded)
    assert sum(part.nbytes for part in encoded) == encoding(name).bytes(str(dtype).removeprefix("torch."), 13)


def test_declared_sizes_are_torchs() -> None:
    assert {name: getattr(torch, name).itemsize for name in DTYPE_BYTES} == DTYPE_BYTES


@each
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_adding_is_decoding_and_then_adding_in_full_precision(name: str, dtype: torch.dtype) -> None:
    parts = [normal(50, dtype=dtype), normal(1, dtype=dtype)]
    sums = [torch.full_like(part, 1e5) for part in parts]
    expected = [s + t for s, t in zip(sums, travel(name, parts), strict=True)]
    made = codec(name, parts)
    made.decode_add(encode(made, parts), sums)
    assert all(map(same, sums, expected))


@each
def test_pieces_of_a_unit_are_written_in_place_and_nothing_beside_them(name: str) -> None:
    """Decoding goes into views of parameters; their neighbours stay as they are."""
    memory = torch.full((10,), 7.0)
    parts = [memory[1:4], memory[6:8]]
    made = codec(name, parts)
    payload = encode(made, [torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, 5.0])])
    made.decode(payload, parts)
    assert memory.tolist() == [7, 1, 2, 3, 7, 7, 4, 5, 7, 7]
    made.decode_add(payload, parts)
    assert memory.tolist() == [7, 2, 4, 6, 7, 7, 8, 10, 7, 7]


@each
def test_encoding_leaves_the_gradients_alone_and_refuses_nothing_silently(name: str) -> None:
    part = normal(20)
    before = part.clone()
    made = codec(name, [part])
    payload = encode(made, [part])
    assert same(part, before)
    with pytest.raises((RuntimeError, ValueError)):
        made.decode(payload[:-1], [part])
