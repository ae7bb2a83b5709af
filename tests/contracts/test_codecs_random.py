"""What codecs must hold that round at random: what arrives is right in the mean, as near as it says, and repeats."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from engine.axes.codec import CODEC
from engine.codec.base import Piece, UnitCodec
from engine.codec.opening import opened
from engine.codec.terngrad import CUT
from engine.errors import TrainingError
from engine.plan.encoding import encoding
from tests.contracts.test_codecs_feedback import (
    ODD,
    SIZES,
    assert_messages_come_whole,
    assert_written_in_place,
    decoded,
    encode,
    normal,
    travel,
)

WAYS = {m.name: encoding(m.name) for m in CODEC if m.available and "random" in m.traits} | {
    "qsgd, 2 bits": encoding("qsgd", {"bits": 2}),
    "qsgd, 8 bits, block 100": encoding("qsgd", {"bits": 8, "block": 100}),
    "terngrad, block 33": encoding("terngrad", {"block": 33}),
}
"""With their defaults, and with other options."""
MESSAGES = 500
"""Of which means are taken."""
FAR = 6.0
"""So many standard errors: chance leads further once in 500 million times, and seeds are fixed."""

each = pytest.mark.parametrize("name", WAYS)


def made(name: str, count: int, dtype: torch.dtype = torch.float32, seed: int = 1) -> UnitCodec:
    return opened(WAYS[name], Piece(name="fc6", count=count, dtype=dtype, seed=seed))


def levels(name: str) -> int:
    """On each side of zero."""
    options = WAYS[name].options
    return 2 ** (options.bits - 1) - 1 if WAYS[name].codec == "qsgd" else 1


def blocks(name: str, values: Tensor) -> tuple[Tensor, ...]:
    return values.split(WAYS[name].options.block)


def meant(name: str, given: Tensor) -> Tensor:
    """What a message should be in the mean."""
    if WAYS[name].codec == "qsgd":
        return given
    cuts = [CUT * block.square().mean().sqrt() for block in blocks(name, given)]
    return torch.cat([b.clamp(-c, c) for b, c in zip(blocks(name, given), cuts, strict=True)])


def variances(name: str, given: Tensor) -> Tensor:
    """Of each element of a message: levels are `step` apart, and it is between two of them."""
    found = []
    for block in blocks(name, meant(name, given)):
        step = block.abs().max() / levels(name)
        over = (block / step) % 1
        found.append(step**2 * over * (1 - over))
    return torch.cat(found)


def many(name: str, given: Tensor) -> Tensor:
    """What arrives of so many messages, one row each."""
    codec = made(name, len(given), given.dtype)
    return torch.stack([travel(codec, [given])[0] for _ in range(MESSAGES)])


def test_these_are_all_that_draw() -> None:
    assert {way.codec for way in WAYS.values()} == {"qsgd", "terngrad"}
    assert not any("feedback" in CODEC[way.codec].traits for way in WAYS.values())


@each
@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_it_weighs_what_the_plan_declares(name: str, dtype: torch.dtype, count: int) -> None:
    payload = encode(made(name, count, dtype), [normal(count, dtype=dtype)])
    assert len(payload) == WAYS[name].bytes(str(dtype).removeprefix("torch."), count)


def test_codes_are_packed() -> None:
    sizes = {
        name: len(encode(made(name, 5120), [normal(5120)])) for name in ("qsgd", "qsgd, 2 bits", "terngrad")
    }
    assert sizes == {"qsgd": 2560 + 40, "qsgd, 2 bits": 1280 + 40, "terngrad": 1024 + 40}


@each
def test_the_mean_of_many_messages_is_what_was_given(name: str) -> None:
    given = normal(1200, dtype=torch.float64)
    found, expected = many(name, given), meant(name, given)
    errors = (found.mean(0) - expected) / (variances(name, given) / MESSAGES).sqrt().clamp(min=1e-6)
    assert errors.abs().max() < FAR
    assert abs(errors.mean()) < FAR / math.sqrt(len(given)), "all are off to the same side"
    toward = (errors * expected.sign()).mean()
    assert abs(toward) < FAR / math.sqrt(len(given)), "all are too large, or too small"
    assert errors.std() == pytest.approx(1, abs=0.15), "as far off as chance says, neither more nor less"


HARD = {
    "normal": normal(512, dtype=torch.float64),
    "one large": torch.cat(
        [torch.ones(1, dtype=torch.float64), torch.full((511,), 1e-3, dtype=torch.float64)]
    ),
    "half a level": torch.cat(
        [torch.ones(1, dtype=torch.float64), torch.full((511,), 0.5 / 7, dtype=torch.float64)]
    ),
    "of all sizes": normal(512, dtype=torch.float64) * torch.logspace(-6, 0, 512, dtype=torch.float64),
}


@pytest.mark.parametrize("name", [name for name, way in WAYS.items() if way.codec == "qsgd"])
@pytest.mark.parametrize("given", HARD.values(), ids=HARD)
def test_qsgds_variance_is_within_the_papers_bound(name: str, given: Tensor) -> None:
    """min(n / s^2, sqrt(n) / s) times the sum of squares, of every block; and it is what the rule makes it."""
    found = (many(name, given) - given).square()
    apart = zip(blocks(name, given), found.split(WAYS[name].options.block, dim=1), strict=True)
    for block, squares in apart:
        n, s = len(block), levels(name)
        bound = min(n / s**2, math.sqrt(n) / s) * block.square().sum()
        assert squares.sum(1).mean() <= bound
        assert squares.sum(1).mean() <= n * (block.abs().max() / (2 * s)) ** 2 * 1.01
    sums, expected = found.sum(1), variances(name, given).sum()
    assert abs(sums.mean() - expected) < FAR * sums.std() / math.sqrt(MESSAGES) + 1e-6 * expected


@pytest.mark.parametrize("name", ["qsgd", "qsgd, 2 bits", "terngrad"])
def test_every_level_is_used(name: str) -> None:
    (found,) = travel(made(name, 512), [torch.linspace(-1, 1, 512)])
    assert len(found.unique()) == 2 * levels(name) + 1


@each
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_odd_tensors(name: str, dtype: torch.dtype) -> None:
    """Of each of them a level is exactly what it is."""
    for given in (*ODD, torch.full((3,), 3e38), torch.cat([torch.zeros(600), torch.ones(1)])):
        part = given.to(dtype)
        (sent,) = travel(made(name, len(part), dtype), [part])
        assert torch.allclose(sent, meant(name, part.double()).to(dtype), rtol=1e-5, atol=0)


def test_terngrad_cuts_off_what_is_beyond_its_sigmas() -> None:
    given = torch.full((400,), 0.01)
    given[7] = 1.0
    (sent,) = travel(made("terngrad", 400), [given])
    most = CUT * given.square().mean().sqrt()
    assert sent[7] == pytest.approx(float(most), rel=1e-5)
    assert set(sent.tolist()) == {0.0, float(sent[7])}
    assert travel(made("qsgd", 400), [given])[0][7] == 1.0


@each
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_said_and_draws_nothing(name: str, wrong: float) -> None:
    assert_refused_without_a_draw(made(name, 600), made(name, 600), wrong)


def assert_refused_without_a_draw(codec: UnitCodec, other: UnitCodec, wrong: float) -> None:
    """Two alike, of 600 elements: what is `wrong` is said, and leaves no trace."""
    for one in (codec, other):
        encode(one, [normal(600)])
    given = normal(600)
    given[599] = wrong
    with pytest.raises(TrainingError, match="fc6 sends holds a value that is not finite"):
        codec.encode([given], [0])
    assert bytes(encode(codec, [normal(600)])) == bytes(encode(other, [normal(600)]))


@each
def test_a_run_repeats_and_no_two_messages_are_alike(name: str) -> None:
    given = [normal(600)]
    one, other, elsewhere = made(name, 600), made(name, 600), made(name, 600, seed=2)
    first, second = bytes(encode(one, given)), bytes(encode(one, given))
    assert first != second
    assert (first, second) == (bytes(encode(other, given)), bytes(encode(other, given)))
    assert bytes(encode(elsewhere, given)) not in (first, second)


@each
def test_its_state_can_be_saved_and_loaded(name: str) -> None:
    """Whoever goes on from it sends, bit by bit, what would have been sent, whatever lengths messages had."""
    codec = made(name, 700)
    assert codec.state() == {}
    for count in (700, 3, 100):
        encode(codec, [normal(count)])
    saved = codec.state()
    resumed = made(name, 700)
    resumed.load(saved)
    for step in range(3):
        given = [normal(700, seed=step)]
        assert bytes(encode(codec, given)) == bytes(encode(resumed, given))
    fresh = made(name, 700)
    first = bytes(encode(made(name, 700), [normal(700)]))
    fresh.load(saved)
    fresh.load({})
    assert bytes(encode(fresh, [normal(700)])) == first
    with pytest.raises(ValueError, match="how many messages"):
        fresh.load({"rest": torch.zeros(700)})


@each
def test_decoding_draws_nothing_and_writes_only_its_parts(name: str) -> None:
    codec = made(name, 330)
    assert_written_in_place(codec)
    payload = encode(codec, [normal(330)])
    (flat,) = decoded(codec, payload, [torch.empty(330)])
    (again,) = decoded(codec, payload, [torch.empty(330)])
    assert torch.equal(flat, again)
    sums = torch.full((330,), 1e3)
    codec.decode_add(payload, [sums])
    assert torch.equal(sums, flat + 1e3)


@each
def test_a_message_is_refused_cut_short_and_may_begin_at_any_address(name: str) -> None:
    assert_messages_come_whole(made(name, 600))


@each
def test_slices_of_whole_blocks_have_the_scales_of_their_layer(name: str) -> None:
    block = WAYS[name].options.block
    size, given = 2 * block, normal(5 * block + 100)
    count = -(-len(given) // block)
    whole = bytes(encode(made(name, len(given)), [given]))[: 4 * count]
    apart = b""
    for part in given.split(size):
        apart += bytes(encode(made(name, len(part)), [part]))[: 4 * -(-len(part) // block)]
    assert apart == whole
