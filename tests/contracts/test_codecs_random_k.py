"""What random-k must hold: its places are any, a seed says which, and it is right in the mean, or keeps the rest."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.codec.base import Piece, UnitCodec
from engine.codec.feedback import Feedback
from engine.codec.opening import opened
from engine.codec.random_k import drawn
from engine.plan.encoding import encoding
from tests.contracts.test_codecs_feedback import (
    assert_messages_come_whole,
    assert_written_in_place,
    decoded,
    encode,
    normal,
    travel,
)
from tests.contracts.test_codecs_random import assert_refused_without_a_draw

MESSAGES = 4000
"""Of which means are taken."""
FAR = 6.0
"""So many standard errors: chance leads further once in 500 million times, and seeds are fixed."""


def made(count: int, seed: int = 1, dtype: torch.dtype = torch.float32, **options: object) -> UnitCodec:
    return opened(encoding("random-k", options), Piece(name="fc6", count=count, dtype=dtype, seed=seed))


def many(given: Tensor, **options: object) -> Tensor:
    """What arrives of so many messages, one row each."""
    codec = made(len(given), dtype=given.dtype, **options)
    return torch.stack([travel(codec, [given])[0] for _ in range(MESSAGES)])


@pytest.mark.parametrize("count", [1, 2, 3, 10, 1000, 70_000])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.51, 0.9, 1.0])
def test_places_are_as_many_as_asked_ascend_and_follow_from_the_seed(count: int, share: float) -> None:
    chosen = round(share * count)
    places = drawn(7, count, chosen)
    assert len(places) == chosen
    assert (np.diff(places) > 0).all()
    assert not chosen or 0 <= places[0] <= places[-1] < count
    assert np.array_equal(places, drawn(7, count, chosen))


def test_a_seeds_places_are_the_same_in_every_version() -> None:
    """Parties of one job may have other versions of NumPy, and values would go to other places without a word."""
    assert drawn(7, 1000, 6).tolist() == [43, 106, 369, 587, 652, 696]
    assert drawn(2**64 - 1, 100_000, 4).tolist() == [4787, 51068, 67108, 83629]
    assert drawn(3, 8, 6).tolist() == [0, 1, 2, 3, 4, 7]


@pytest.mark.parametrize(("count", "chosen"), [(10, 3), (10, 5), (10, 8), (257, 20)])
def test_every_element_and_every_two_are_sent_as_often_as_any_other(count: int, chosen: int) -> None:
    times = 20_000
    sent = np.zeros((times, count), np.int64)
    for seed in range(times):
        sent[seed, drawn(seed, count, chosen)] = 1
    share = chosen / count
    errors = (sent.mean(0) - share) / math.sqrt(share * (1 - share) / times)
    assert np.abs(errors).max() < FAR
    both = chosen * (chosen - 1) / (count * (count - 1))
    found = (sent.T.astype(np.float64) @ sent) / times
    for one, other in combinations(range(count), 2):
        assert abs(found[one, other] - both) < FAR * math.sqrt(both * (1 - both) / times)


def test_what_is_sent_is_what_was_there() -> None:
    given = normal(1000)
    codec = opened(encoding("random-k"), Piece(name="fc6", count=1000, dtype=torch.float32), remembers=False)
    (sent,) = travel(codec, [given])
    there = sent != 0
    assert int(there.sum()) == 10
    assert torch.equal(sent[there], given[there])


@pytest.mark.parametrize(
    ("ratio", "bits"), [(0.1, 32), pytest.param(0.5, 32, marks=pytest.mark.soak), (0.1, 16)]
)
def test_unbiased_the_mean_of_many_messages_is_what_was_given(ratio: float, bits: int) -> None:
    given = normal(400, dtype=torch.float64)
    found = many(given, ratio=ratio, unbiased=True, value_bits=bits)
    errors = (found.mean(0) - given) / (given.square() * (1 / ratio - 1) / MESSAGES).sqrt()
    assert errors.abs().max() < FAR
    assert abs(errors.mean()) < FAR / math.sqrt(len(given)), "all are off to the same side"
    toward = (errors * given.sign()).mean()
    assert abs(toward) < FAR / math.sqrt(len(given)), "all are too large, or too small"
    assert errors.std() == pytest.approx(1, abs=0.15), "as far off as chance says, neither more nor less"
    squares = (found - given).square().sum(1)
    expected = (1 / ratio - 1) * given.square().sum()
    assert abs(squares.mean() - expected) < FAR * squares.std() / math.sqrt(MESSAGES) + 1e-3 * expected


def test_it_keeps_a_rest_or_is_right_in_the_mean_and_never_both() -> None:
    assert isinstance(made(1000), Feedback)
    assert not isinstance(made(1000, unbiased=True), Feedback)
    assert encoding("random-k").traits == {"feedback", "selects"}
    assert encoding("random-k", {"unbiased": True}).traits == {"random", "selects"}
    assert [encoding("random-k", {"unbiased": unbiased}).kept for unbiased in (False, True)] == [1, 0]


def test_the_rest_of_an_element_is_sent_with_it() -> None:
    codec, given = made(1000), normal(1000)
    total = torch.zeros(1000)
    for _ in range(50):
        total += travel(codec, [given])[0]
    sent = total != 0
    assert 300 < int(sent.sum()) < 460, "500 draws of 1000"
    assert torch.allclose(total + codec.state()["rest"], 50 * given, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "count", "size"),
    [
        ({}, 50_000, 8 + 500 * 4),
        ({"value_bits": 16}, 50_000, 8 + 4 + 500 * 2),
        ({"ratio": 0.5, "unbiased": True}, 1001, 8 + 500 * 4),
        ({}, 1, 4),
        ({}, 2, 8),
        ({}, 3, 12),
        ({}, 4, 12),
        ({"ratio": 1.0}, 100, 400),
        ({"ratio": 0.99}, 100, 400),
        ({}, 0, 0),
    ],
)
@pytest.mark.parametrize("parts", [1, 2])
def test_what_it_costs(options: dict[str, object], count: int, size: int, parts: int) -> None:
    """A message whose seed would cost as much as all elements has all of them."""
    assert encoding("random-k", options).bytes("float32", count) == size
    assert len(encode(made(count, **options), list(normal(count).tensor_split(parts)))) == size


@pytest.mark.parametrize("unbiased", [False, True])
def test_where_all_elements_are_sent_it_is_exact(unbiased: bool) -> None:
    given = normal(300)
    assert torch.equal(travel(made(300, ratio=1.0, unbiased=unbiased), [given])[0], given)


@pytest.mark.parametrize("unbiased", [False, True])
def test_a_run_repeats_and_no_two_messages_or_senders_are_alike(unbiased: bool) -> None:
    given = [normal(600)]
    one, other, elsewhere = (made(600, seed, unbiased=unbiased) for seed in (1, 1, 2))
    first, second = bytes(encode(one, given)), bytes(encode(one, given))
    assert first[-8:] != second[-8:]
    assert (first, second) == (bytes(encode(other, given)), bytes(encode(other, given)))
    assert bytes(encode(elsewhere, given))[-8:] not in (first[-8:], second[-8:])


@pytest.mark.parametrize("unbiased", [False, True])
def test_its_state_can_be_saved_and_loaded(unbiased: bool) -> None:
    codec, resumed = made(700, unbiased=unbiased), made(700, unbiased=unbiased)
    assert codec.state() == {}
    for count in (700, 3, 100):
        encode(codec, [normal(count)])
    saved = codec.state()
    assert set(saved) == {"messages"} | (set() if unbiased else {"rest"})
    resumed.load(saved)
    for step in range(3):
        given = [normal(700, seed=step)]
        assert bytes(encode(codec, given)) == bytes(encode(resumed, given))
    with pytest.raises(ValueError, match="how many messages"):
        resumed.load({"momentum": torch.zeros(700)})


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_what_is_not_finite_is_said_and_draws_nothing(unbiased: bool, wrong: float) -> None:
    assert_refused_without_a_draw(made(600, unbiased=unbiased), made(600, unbiased=unbiased), wrong)


def test_decoding_draws_nothing_and_writes_only_its_parts() -> None:
    codec = made(330, unbiased=True, ratio=0.1)
    assert_written_in_place(codec)
    payload = encode(codec, [normal(330)])
    (flat,) = decoded(codec, payload, [torch.empty(330)])
    assert torch.equal(flat, decoded(made(330, seed=9, ratio=0.1), payload, [torch.empty(330)])[0])
    sums = torch.full((330,), 7.0)
    codec.decode_add(payload, [sums])
    assert torch.equal(sums, flat + 7)
    assert int((sums != 7).sum()) == 33


def test_a_message_is_refused_cut_short_and_may_begin_at_any_address() -> None:
    assert_messages_come_whole(made(600, unbiased=True))
