"""What a codec must hold whose messages are votes: a bit an element, majorities, and zeros that lead nowhere."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from torch import Tensor

from engine.axes.codec import CODEC
from engine.codec.base import Piece, UnitCodec
from engine.codec.opening import opened
from engine.errors import TrainingError, UserError
from engine.plan.encoding import encoding
from engine.tensor_bytes import as_bytes, joined
from tests.contracts.test_codecs_feedback import (
    SIZES,
    assert_messages_come_whole,
    assert_written_in_place,
    decoded,
    encode,
    normal,
    travel,
)
from tests.contracts.test_codecs_random import assert_refused_without_a_draw

NAMES = [m.name for m in CODEC if m.available and "votes" in m.traits]

each = pytest.mark.parametrize("name", NAMES)
of_types = pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str
)


def made(name: str, count: int, dtype: torch.dtype = torch.float32, seed: int = 1) -> UnitCodec:
    return opened(encoding(name), Piece(name="fc6", count=count, dtype=dtype, seed=seed))


def majority(name: str, votes: list[Tensor], server: UnitCodec) -> Tensor:
    """As a server finds it, in the sums' own type, and as workers hear of it."""
    count, sums = len(votes[0]), torch.empty_like(votes[0])
    for rank, gradient in enumerate(votes):
        payload = encode(made(name, count, gradient.dtype, seed=10 + rank), [gradient])
        (server.decode if rank == 0 else server.decode_add)(payload, [sums])
    return travel(server, [sums])[0]


def test_these_are_all_that_vote() -> None:
    assert NAMES == ["signsgd"]
    assert all(encoding(name).kept == 0 and encoding(name).exact for name in NAMES)


@each
@of_types
@pytest.mark.parametrize("count", SIZES)
def test_it_is_a_bit_an_element(name: str, dtype: torch.dtype, count: int) -> None:
    payload = encode(made(name, count, dtype), [normal(count, dtype=dtype)])
    assert len(payload) == encoding(name).bytes(str(dtype).removeprefix("torch."), count) == -(-count // 8)


@each
@of_types
def test_what_arrives_is_the_sign_of_each_element(name: str, dtype: torch.dtype) -> None:
    given = normal(1003, dtype=dtype) * torch.logspace(-3, 3, 1003, dtype=dtype)
    parts = [given[:400], given[400:401], given[401:]]
    assert torch.equal(torch.cat(travel(made(name, 1003, dtype), parts)), given.sign())


@each
def test_numbers_too_small_for_float32_have_a_sign(name: str) -> None:
    given = torch.tensor([1e-200, -1e-200], dtype=torch.float64)
    for seed in range(20):
        assert travel(made(name, 2, torch.float64, seed=seed), [given])[0].tolist() == [1, -1]


@each
@pytest.mark.parametrize("workers", [1, 3, 5])
def test_servers_answer_with_what_most_are_for(name: str, workers: int) -> None:
    """However large the others' gradients are: every case of so many signs."""
    cases = torch.tensor(list(product([1.0, -1.0], repeat=workers)))
    sizes = torch.linspace(0.01, 100, workers)
    found = majority(name, list((cases * sizes).T.contiguous()), made(name, len(cases)))
    assert torch.equal(found, cases.sum(1).sign())


@each
@pytest.mark.parametrize("workers", [2, 4])
def test_ties_go_either_way_and_back(name: str, workers: int) -> None:
    """A step that half of the workers oppose leads nowhere after two, and is not the same one for all elements."""
    count = 4096
    votes = [torch.full((count,), 1.0 if rank % 2 else -1.0) for rank in range(workers)]
    server = made(name, count)
    first, second, third, fourth = (majority(name, votes, server) for _ in range(4))
    assert torch.equal(first, -second)
    assert torch.equal(third, -fourth)
    assert abs(first.mean()) < 0.1
    assert abs((first * third).mean()) < 0.1, "nor is it the next time"


@each
def test_zeros_vote_either_way_and_back_each_worker_for_itself(name: str) -> None:
    codecs = [made(name, 4096, seed=seed) for seed in (1, 2)]
    given = [torch.zeros(4096)]
    (one, other), (back, opposite) = (
        [travel(codec, given)[0] for codec in codecs],
        [travel(codec, given)[0] for codec in codecs],
    )
    assert set(one.tolist()) == {1.0, -1.0}
    assert torch.equal(one, -back)
    assert torch.equal(other, -opposite)
    assert abs((one * other).mean()) < 0.1
    mixed = torch.cat([torch.zeros(2048), normal(2048)])
    (found,) = travel(codecs[0], [mixed])
    assert torch.equal(found[2048:], mixed[2048:].sign())


def signum(name: str, count: int, dtype: torch.dtype = torch.float32, *, sums: bool = False) -> UnitCodec:
    piece = Piece(name="fc6", count=count, dtype=dtype, seed=1, sums=sums)
    return opened(encoding(name, {"momentum": 0.9}), piece)


@each
@of_types
def test_with_momentum_a_worker_votes_with_that(name: str, dtype: torch.dtype) -> None:
    """Signum: of the worker's own gradients, each element by itself, and of those that are there."""
    codec, count = signum(name, 400, dtype), 400
    momentum = torch.zeros(count, dtype=dtype if dtype.itemsize >= 4 else torch.float32)
    for step in range(12):
        given = normal(count, step, dtype)
        at = 100 if step % 3 == 2 else 0  # of the first elements there is no gradient
        momentum[at:] = 0.9 * momentum[at:] + (1 - 0.9) * given[at:].to(momentum.dtype)
        payload = joined([as_bytes(tensor) for tensor in codec.encode([given[at:]], [at])])
        (found,) = decoded(codec, payload, [given[at:]])
        clear = momentum[at:].abs() > 1e-6
        assert torch.equal(found[clear].double(), momentum[at:][clear].sign().double())
    assert not torch.equal(momentum.sign(), given.sign().to(momentum.dtype))
    assert torch.allclose(codec.state()["momentum"], momentum, rtol=1e-5, atol=1e-6)


@each
def test_a_majority_has_no_momentum(name: str) -> None:
    server, given = signum(name, 300, sums=True), [normal(300, seed) for seed in range(3)]
    for each_sum in given:
        assert torch.equal(travel(server, [each_sum])[0], each_sum.sign())
    assert set(server.state()) == {"messages"}


@each
def test_a_momentum_is_saved_and_loaded_and_kept_where_nothing_can_be_said(name: str) -> None:
    codec, resumed = signum(name, 200), signum(name, 200)
    for step in range(3):
        encode(codec, [normal(200, step)])
    saved = codec.state()
    with pytest.raises(TrainingError, match="fc6 sends holds a value that is not finite"):
        codec.encode([torch.full((200,), math.nan)], [0])
    assert all(torch.equal(held, saved[key]) for key, held in codec.state().items())
    resumed.load(saved)
    for step in range(3, 6):
        given = [normal(200, step)]
        assert bytes(encode(codec, given)) == bytes(encode(resumed, given))
    assert not torch.equal(saved["momentum"], codec.state()["momentum"]), "what was saved is a copy"
    before = codec.state()
    for wrong in (saved | {"momentum": torch.zeros(7)}, saved | {"rest": torch.zeros(200)}):
        with pytest.raises(ValueError, match=r"does not belong|how many messages"):
            codec.load(wrong)
        assert all(torch.equal(held, before[key]) for key, held in codec.state().items())
    with pytest.raises(ValueError, match="has no momentum here"):
        made(name, 200).load(saved)
    with pytest.raises(UserError, match=r"must be at least 0 and less than 1"):
        encoding(name, {"momentum": 1.0})
    assert encoding(name, {"momentum": 0.9}).kept == 1


@each
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_said_and_draws_nothing(name: str, wrong: float) -> None:
    codecs = made(name, 600), made(name, 600)
    assert_refused_without_a_draw(*codecs, wrong)
    assert [codec.state() for codec in codecs] == [{"messages": torch.tensor(2)}] * 2
    with pytest.raises(TrainingError, match="Lower the learning rate, or use the codec fp32"):
        codecs[0].encode([torch.full((600,), wrong)], [0])  # majorities cannot be clipped


@each
def test_its_state_can_be_saved_and_loaded(name: str) -> None:
    """Whoever goes on from it sends, bit by bit, what would have been sent."""
    codec, zeros = made(name, 700), [torch.zeros(700)]
    assert codec.state() == {}
    for _ in range(3):
        encode(codec, zeros)
    resumed = made(name, 700)
    resumed.load(codec.state())
    for _ in range(3):
        assert bytes(encode(codec, zeros)) == bytes(encode(resumed, zeros))
    with pytest.raises(ValueError, match="how many messages"):
        resumed.load({"rest": torch.zeros(700)})


@each
def test_a_message_is_refused_cut_short_and_may_begin_at_any_address(name: str) -> None:
    assert_messages_come_whole(made(name, 600))


@each
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_decoding_writes_only_its_parts_and_adds_whole_votes(name: str, dtype: torch.dtype) -> None:
    codec = made(name, 330, dtype)
    assert_written_in_place(made(name, 330))
    given = normal(330, dtype=dtype)
    sums = torch.full((330,), 1e3, dtype=dtype)
    codec.decode_add(encode(codec, [given]), [sums])
    assert torch.equal(sums, given.sign() + 1e3)
