"""What codecs must hold that keep what their messages lose: nothing is lost for good, and they weigh what they say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import pytest
import torch
from torch import Tensor

from engine.axes.codec import CODEC
from engine.axes.matrices import Rows
from engine.codec.base import Piece, UnitCodec, beginnings
from engine.codec.feedback import Feedback
from engine.codec.opening import opened
from engine.errors import TrainingError
from engine.plan.encoding import encoding
from engine.tensor_bytes import as_bytes, joined, kept
from tests.arrays import covering_rows

DEFAULT = [m.name for m in CODEC if m.available and "feedback" in m.traits]
WAYS = {name: encoding(name) for name in DEFAULT} | {
    "int8, block 64": encoding("int8", {"block": 64}),
    "fp8, block 1000": encoding("fp8", {"block": 1000}),
    "int4, block 33": encoding("int4", {"block": 33}),
    "one-bit, block 100": encoding("one-bit", {"block": 100}),
    "top-k, a tenth": encoding("top-k", {"ratio": 0.1, "value_bits": 16}),
    "two-bit": encoding("two-bit", {"threshold": 0.5}),
    "threshold": encoding("threshold", {"threshold": 0.5}),
    "adacomp, bins of 50": encoding("adacomp", {"bin": 50}),
    "top-k, coded": encoding("top-k", entropy_coding=True),
    "powersgd, rank 4": encoding("powersgd", {"rank": 4}),
    "threshold, coded": encoding("threshold", {"threshold": 2.0}, entropy_coding=True),
}
"""With their defaults, and with other options; thresholds suit what is sent here."""
NAMES = list(WAYS)
BOUND = {"int8": 1 / 254, "fp8": 2.0**-4, "int4": 1 / 14}
"""Largest error of one element, over the largest magnitude of its block, of those with a bound."""
WHOLE = [name for name, way in WAYS.items() if not CODEC[way.codec].traits & {"selects", "matrices"}]
"""Whose messages say something of every element; of the others `test_codecs_sparse.py` and `test_codecs_matrices.py`
ask."""
SIZES = [0, 1, 2, 7, 255, 256, 257, 511, 512, 513, 1000, 5000]

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
FEW = set(covering_rows(NAMES, DTYPES, SIZES))
"""Every two of a way, a type and a size. All three meet in `soak`."""

each = pytest.mark.parametrize("name", NAMES)
each_whole = pytest.mark.parametrize("name", WHOLE)


def rows(count: int) -> tuple[Rows, ...]:
    """A weight with 20 inputs, for codecs that factor it."""
    return (Rows(count, 20),)


def plain(name: str, count: int, dtype: torch.dtype = torch.float32) -> UnitCodec:
    return opened(WAYS[name], Piece(name="fc6", count=count, dtype=dtype, rows=rows(count)), remembers=False)


def remembering(name: str, count: int, dtype: torch.dtype = torch.float32) -> Feedback:
    found = opened(WAYS[name], Piece(name="fc6", count=count, dtype=dtype, rows=rows(count)))
    assert isinstance(found, Feedback)
    return found


def encode(codec: UnitCodec, parts: Sequence[Tensor], at: Sequence[int] | None = None) -> memoryview:
    """Joined as the transport does."""
    places = beginnings(parts) if at is None else at
    return kept(joined([as_bytes(tensor) for tensor in codec.encode(parts, places)]))


def decoded(codec: UnitCodec, payload: memoryview, like: Sequence[Tensor]) -> list[Tensor]:
    found = [torch.full_like(part, 123) for part in like]
    codec.decode(payload, found)
    return found


def travel(codec: UnitCodec, parts: Sequence[Tensor]) -> list[Tensor]:
    return decoded(codec, encode(codec, parts), parts)


def normal(count: int, seed: int = 1, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, generator=generator, dtype=torch.float64).to(dtype)


def rest(codec: Feedback) -> Tensor:
    return codec.state()["rest"]


def test_all_are_in_the_tables() -> None:
    assert set(BOUND) | {"one-bit"} == set(DEFAULT) & set(WHOLE)


@pytest.mark.parametrize(
    ("name", "dtype", "count"),
    [
        pytest.param(*row, marks=[] if row in FEW else [pytest.mark.soak])
        for row in product(NAMES, DTYPES, SIZES)
    ],
    ids=str,
)
def test_it_weighs_what_the_plan_declares(name: str, dtype: torch.dtype, count: int) -> None:
    payload = encode(plain(name, count, dtype), [normal(count, dtype=dtype)])
    way, kind = WAYS[name], str(dtype).removeprefix("torch.")
    twice = kept(joined([payload, payload])) if count else payload
    assert len(payload) == way.extent(kind, count, twice, rows(count))
    assert len(payload) <= way.bytes(kind, count, rows(count)) <= way.bytes(kind, count)
    assert len(payload) == way.bytes(kind, count, rows(count)) or not way.exact


def test_one_bit_is_one_bit() -> None:
    """And what travels beside it is two numbers for each block."""
    size = len(encode(plain("one-bit", 8 * 512), [normal(8 * 512)]))
    assert size == 512 + 8 * 8


@each
@pytest.mark.parametrize("count", SIZES)
def test_what_is_sent_and_what_is_kept_is_what_was_given(name: str, count: int) -> None:
    codec, given = remembering(name, count), normal(count)
    (sent,) = travel(codec, [given])
    assert torch.allclose(sent + rest(codec), given, rtol=0, atol=1e-6)
    all_of_it = WAYS[name].bytes("float32", count, rows(count)) == 4 * count
    assert count < 2 or all_of_it or not torch.equal(sent, given), "nothing was rounded"


@each
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_over_many_steps_nothing_is_lost(name: str, dtype: torch.dtype) -> None:
    """Sums telescope: all that was sent, and what is left, is all that was given."""
    codec = remembering(name, 1000, dtype)
    given, sent = torch.zeros(1000, dtype=dtype), torch.zeros(1000, dtype=dtype)
    for step in range(100):
        gradient = normal(1000, seed=step, dtype=dtype)
        given += gradient
        sent += travel(codec, [gradient])[0]
    assert torch.allclose(sent + rest(codec), given, rtol=0, atol=1e-10 if dtype == torch.float64 else 1e-3)
    assert rest(codec).abs().max() < 40, "what is left does not grow with the steps"


@each
def test_what_waits_of_a_unit_of_16_bits_is_not_rounded_away(name: str) -> None:
    """It grows far beyond one gradient, so that in 16 bits a gradient added to it would be lost."""
    codec, count = remembering(name, 1000, torch.bfloat16), 400
    gradient = normal(1000, dtype=torch.bfloat16)
    sent = sum(travel(codec, [gradient])[0].double() for _ in range(count))
    assert torch.allclose((sent + rest(codec)) / count, gradient.double(), rtol=1e-3, atol=1e-3)


@each_whole
def test_small_elements_beside_a_large_one_are_late_not_lost(name: str) -> None:
    codec, given = remembering(name, 64, torch.float64), torch.full((64,), 1e-3, dtype=torch.float64)
    given[0] = 1.0
    sent = sum(travel(codec, [given])[0] for _ in range(2000))
    assert isinstance(sent, Tensor)
    assert torch.allclose(sent / 2000, given, rtol=0, atol=2e-3)


ODD = (
    torch.zeros(5),
    torch.full((700,), 0.25),
    torch.full((700,), -0.25),
    torch.tensor([-3.5]),
    torch.empty(0),
    torch.full((3,), 1e-30),
)


@each_whole
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_odd_tensors(name: str, dtype: torch.dtype) -> None:
    for given in ODD:
        part = given.to(dtype)
        (sent,) = travel(plain(name, len(part), dtype), [part])
        assert torch.allclose(sent, part, rtol=1e-5, atol=0)


@each
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_said_and_changes_nothing(name: str, wrong: float) -> None:
    codec = remembering(name, 600)
    travel(codec, [normal(600)])
    before, given = rest(codec), normal(600)
    given[599] = wrong
    with pytest.raises(TrainingError, match="fc6 sends holds a value that is not finite"):
        codec.encode([given], [0])
    assert torch.equal(rest(codec), before)


@pytest.mark.parametrize("name", [name for name, way in WAYS.items() if way.codec in BOUND])
@pytest.mark.parametrize("count", [1, 256, 1000])
def test_the_error_has_a_bound(name: str, count: int) -> None:
    given = normal(count) * torch.logspace(-6, 6, count)
    (sent,) = travel(plain(name, count), [given])
    size = WAYS[name].options.block
    for start in range(0, count, size):
        block = slice(start, start + size)
        far, largest = (sent[block] - given[block]).abs().max(), given[block].abs().max()
        assert far <= BOUND[WAYS[name].codec] * largest * (1 + 1e-5)


def test_fp8_is_finer_than_int8_for_small_elements() -> None:
    """As its description says: what one has of range, the other has of resolution."""
    given = torch.full((256,), 2.0**-9 * 1.1)
    given[0] = 1.0
    far = {name: (travel(plain(name, 256), [given])[0] - given)[1:].abs().max() for name in ("int8", "fp8")}
    assert far["fp8"] < far["int8"] / 4


def test_fp8_is_pytorchs() -> None:
    """All that a code may mean, and what is between two of them, beside a largest one by which nothing is scaled."""
    known = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float()
    known = known[known.isfinite()].sort().values
    halfway = (known[1:] + known[:-1]) / 2
    given = torch.cat([known, halfway, halfway.nextafter(known[1:]), halfway.nextafter(known[:-1])])
    for block in given.split(255):
        part = torch.cat([torch.tensor([448.0]), block])
        assert torch.equal(travel(plain("fp8", 256), [part])[0], part.to(torch.float8_e4m3fn).float())


def test_one_bit_keeps_the_sum_of_every_block() -> None:
    given = normal(1300, dtype=torch.float64)
    (sent,) = travel(plain("one-bit", 1300, torch.float64), [given])
    for start in range(0, 1300, 512):
        block = slice(start, start + 512)
        assert math.isclose(sent[block].sum(), given[block].sum(), abs_tol=1e-4)
        assert torch.equal(sent[block] < 0, given[block] < 0)
        assert len(sent[block].unique()) == 2


def assert_messages_come_whole(
    codec: UnitCodec, count: int = 600, name: str = "fc6", cuts: tuple[int, ...] = ()
) -> None:
    """A message that is cut short, at its end, wholly or at one of `cuts`, or too long is refused; one may begin at any
    address, as finished sums of several ranks lie one after the other. Encoding leaves the gradient alone."""
    given = normal(count)
    before = given.clone()
    payload = encode(codec, [given])
    assert torch.equal(given, before)
    short = [payload[:at] for at in (-1, 0, *cuts)]
    for cut in (*short, kept(joined([payload, payload[:1]]))):
        with pytest.raises(RuntimeError, match=f"bytes came for {count} elements of {name}"):
            codec.decode(cut, [given])
    moved = kept(joined([kept(payload[:1]), payload]))[1:]
    assert torch.equal(decoded(codec, moved, [given])[0], decoded(codec, payload, [given])[0])


def assert_written_in_place(codec: UnitCodec) -> None:
    """A message of 30 and 300 elements goes where it belongs, and nothing beside it."""
    memory, parts = torch.full((400,), 7.0), [normal(30), normal(300, seed=2)]
    payload = encode(codec, parts)
    (flat,) = decoded(codec, payload, [torch.empty(330)])
    codec.decode(payload, [memory[10:40], memory[50:350]])
    assert torch.equal(memory[10:40], flat[:30])
    assert torch.equal(memory[50:350], flat[30:])
    codec.decode_add(payload, [memory[10:40], memory[50:350]])
    assert torch.equal(memory[50:350], 2 * flat[30:])
    assert bool((memory[:10] == 7).all() and (memory[40:50] == 7).all() and (memory[350:] == 7).all())


@each
def test_pieces_of_a_unit_are_written_in_place_and_nothing_beside_them(name: str) -> None:
    assert_written_in_place(plain(name, 330))


@each
def test_a_message_is_refused_cut_short_and_may_begin_at_any_address(name: str) -> None:
    assert_messages_come_whole(remembering(name, 600))


@each_whole
def test_slices_of_whole_blocks_are_encoded_as_their_layer_is(name: str) -> None:
    """A layer's statistics do not depend on how it is cut."""
    block = WAYS[name].options.block
    size, given = 2 * block, normal(5 * block + 100)
    (whole,) = travel(plain(name, len(given)), [given])
    for start in range(0, len(given), size):
        part = given[start : start + size]
        assert torch.equal(travel(plain(name, len(part)), [part])[0], whole[start : start + size])


@each
def test_what_is_kept_belongs_to_the_elements_that_were_sent(name: str) -> None:
    """A gradient that is absent in a step leaves its rest alone; it is sent with the next one that is there."""
    codec = remembering(name, 900)
    first = travel(codec, [normal(600), normal(300, seed=2)])
    before = rest(codec)
    given = normal(300, seed=3)
    payload = encode(codec, [given], [600])
    (sent,) = decoded(codec, payload, [given])
    assert torch.equal(rest(codec)[:600], before[:600])
    assert torch.allclose(sent + rest(codec)[600:], given + before[600:], rtol=0, atol=1e-6)
    assert torch.allclose(first[0] + before[:600], normal(600), rtol=0, atol=1e-6)


@each
def test_its_state_can_be_saved_and_loaded(name: str) -> None:
    """Whoever goes on from it sends, bit by bit, what would have been sent."""
    codec = remembering(name, 700)
    assert codec.state() == {}
    for step in range(3):
        travel(codec, [normal(700, seed=step)])
    saved = codec.state()
    resumed = remembering(name, 700)
    resumed.load(saved)
    for step in range(3, 6):
        given = [normal(700, seed=step)]
        assert bytes(encode(codec, given)) == bytes(encode(resumed, given))
    assert not torch.equal(saved["rest"], rest(codec)), "what was saved is a copy"
    fresh = remembering(name, 700)
    fresh.load(saved)
    fresh.load({})
    assert fresh.state() == {}
    with pytest.raises(ValueError, match="does not belong to 3"):
        remembering(name, 3).load(saved)
    with pytest.raises(ValueError, match=r"remembers (nothing|how many messages)"):
        fresh.load({"momentum": given[0]})


@each
def test_ranks_of_a_ring_keep_their_own_rests_and_lose_nothing(name: str) -> None:
    """A hop encodes a partial sum: what all have kept, and what arrived, is what all have given."""
    ranks, count = 3, 600
    codecs = [remembering(name, count, torch.float64) for _ in range(ranks)]
    total, arrived = torch.zeros(count, dtype=torch.float64), torch.zeros(count, dtype=torch.float64)
    for step in range(20):
        gradients = [normal(count, seed=10 * step + rank, dtype=torch.float64) for rank in range(ranks)]
        total += torch.stack(gradients).sum(0)
        carried = torch.zeros(count, dtype=torch.float64)
        for codec, gradient in zip(codecs, gradients, strict=True):
            (carried,) = travel(codec, [carried + gradient])
        arrived += carried
    assert torch.allclose(arrived + sum(map(rest, codecs)), total, rtol=0, atol=1e-9)
