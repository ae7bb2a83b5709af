"""Receivers follow a server that sends what its parameters have moved by, with every codec that may."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from engine.axes.codec import CODEC
from engine.axes.matrices import Rows
from engine.codec.base import Piece, UnitCodec
from engine.codec.difference import Difference, moved_by
from engine.codec.opening import opened
from engine.errors import TrainingError
from engine.plan.encoding import encoding
from engine.tensor_bytes import as_bytes, joined, kept

WAYS = {
    m.name: encoding(m.name)
    for m in CODEC
    if m.available and not m.traits & {"lossless", "own", "random", "votes"}
} | {
    "int8, block 64": encoding("int8", {"block": 64}),
    "top-k, a tenth": encoding("top-k", {"ratio": 0.1, "value_bits": 16}),
    "random-k": encoding("random-k", {"ratio": 0.05}),
    "two-bit": encoding("two-bit", {"threshold": 0.02}),
    "threshold": encoding("threshold", {"threshold": 0.02}),
}
"""Options suit the steps below."""
COUNT = 1000
ROWS = (Rows(COUNT, 20),)
"""For codecs that factor matrices."""
STEP = 0.01
"""By how much an element moves, about."""
each = pytest.mark.parametrize("name", WAYS)
of_types = pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)


def codec_of(name: str, dtype: torch.dtype, count: int = COUNT) -> UnitCodec:
    piece = Piece(name="fc6", count=count, dtype=dtype, rows=ROWS)
    return opened(WAYS[name], piece, remembers=False)


def normal(seed: int, dtype: torch.dtype, count: int = COUNT) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, generator=generator, dtype=torch.float64).to(dtype)


class Pair:
    """A sender whose unit is in two parts, and one receiver that begins with the same."""

    def __init__(self, name: str, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.here = list(normal(1, dtype).split([COUNT - 300, 300]))
        self.there = torch.cat(self.here)
        self.sender = Difference(codec_of(name, dtype), self.here)
        self.receives = codec_of(name, dtype)

    def moves(self, seed: int) -> None:
        for part, step in zip(self.here, normal(seed, self.dtype).split([COUNT - 300, 300]), strict=True):
            part.add_(step, alpha=STEP)

    def send(self) -> memoryview:
        """And receive it."""
        payload = kept(joined([as_bytes(tensor) for tensor in self.sender.encode(self.here)]))
        self.there.add_(moved_by(self.receives, payload, COUNT, self.dtype))
        return payload

    @property
    def held(self) -> Tensor:
        return self.sender.state()["held"]

    @property
    def behind(self) -> Tensor:
        return torch.cat(self.here).double() - self.there.double()


@each
@of_types
def test_the_sender_knows_to_the_bit_what_receivers_hold(name: str, dtype: torch.dtype) -> None:
    pair = Pair(name, dtype)
    for step in range(100):
        pair.moves(step)
        payload = pair.send()
        assert torch.equal(pair.held, pair.there)
        assert len(payload) <= WAYS[name].bytes(str(dtype).removeprefix("torch."), COUNT, ROWS)


@each
def test_sums_telescope_and_what_is_late_does_not_grow(name: str) -> None:
    """Over 100 steps, what was sent and what is behind is all that parameters have moved by; then they stand still, and
    receivers come to hold them: but for a threshold's worth where less than that is never sent."""
    pair = Pair(name, torch.float64)
    begun, sent = torch.cat(pair.here).clone(), torch.zeros(COUNT, dtype=torch.float64)
    late = []
    for step in range(100):
        pair.moves(step)
        before = pair.there.clone()
        pair.send()
        sent += pair.there - before
        late.append(float(pair.behind.norm()))
    assert torch.allclose(begun + sent + pair.behind, torch.cat(pair.here), rtol=0, atol=1e-12)
    assert max(late[60:]) <= 1.5 * max(late[20:60])
    for _ in range(600):
        pair.send()
    rest = getattr(WAYS[name].options, "threshold", STEP / 10)
    assert pair.behind.abs().max() <= rest


@pytest.mark.parametrize(
    ("name", "most"), [("fp16", 2.0**-10), ("bf16", 2.0**-7), ("int8", 2e-2), ("fp8", 5e-2)]
)
def test_receivers_are_behind_by_a_part_of_one_step(name: str, most: float) -> None:
    """However many there were: what is lost is lost of one difference alone, and is in the next one."""
    pair, step_norm = Pair(name, torch.float64), STEP * math.sqrt(COUNT)
    for step in range(100):
        pair.moves(step)
        pair.send()
        assert pair.behind.norm() <= most * step_norm


@each
def test_what_receivers_have_written_is_what_they_hold(name: str) -> None:
    pair = Pair(name, torch.float64)
    pair.moves(1)
    pair.send()
    written = [part.clamp(-0.5, 0.5) for part in pair.here]
    for part, value in zip(pair.here, written, strict=True):
        part.copy_(value)
    pair.there = torch.cat(written)
    pair.sender.assign(written)
    pair.moves(2)
    pair.send()
    assert torch.equal(pair.held, pair.there)


@pytest.mark.parametrize(
    "name", [name for name, way in WAYS.items() if "feedback" in CODEC[way.codec].traits]
)
def test_what_is_not_finite_is_said_and_changes_nothing(name: str) -> None:
    pair = Pair(name, torch.float32)
    pair.moves(1)
    pair.send()
    before = pair.held
    pair.here[0][5] = math.nan
    with pytest.raises(TrainingError, match="fc6 sends holds a value that is not finite"):
        pair.sender.encode(pair.here)
    assert torch.equal(pair.held, before)


@each
def test_its_state_can_be_saved_and_loaded(name: str) -> None:
    """Whoever goes on from it sends, bit by bit, what would have been sent."""
    pair = Pair(name, torch.float32)
    for step in range(3):
        pair.moves(step)
        pair.send()
    saved = pair.sender.state()
    resumed = Difference(codec_of(name, torch.float32), pair.here)
    resumed.load(saved)
    for step in range(3, 6):
        pair.moves(step)
        payload = joined([as_bytes(tensor) for tensor in resumed.encode(pair.here)])
        assert bytes(payload) == bytes(pair.send())
    assert not torch.equal(saved["held"], pair.held), "what was saved is a copy"
    short = [pair.here[1]]
    with pytest.raises(ValueError, match="is not what receivers of 300 elements hold"):
        Difference(codec_of(name, torch.float32, 300), short).load(saved)
    with pytest.raises(ValueError, match="is not what receivers"):
        resumed.load({})
