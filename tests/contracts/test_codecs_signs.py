"""What codecs must hold whose messages are signs: which elements have one, what they stand for, how long they are."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.axes.codec_sizes import BLOCK, SIGNED_HEAD, place_bytes
from engine.codec.base import UnitCodec
from engine.errors import UserError
from engine.plan.encoding import encoding
from engine.tensor_bytes import as_bytes, joined, kept
from tests.contracts.test_codecs_sparse import encode, normal, opened_for, travel

ODD = [1, 2, 3, 4, 5, 7, 8, 9, 500, 501, BLOCK + 3]
THRESHOLDS = ["two-bit", "threshold"]


def beyond(given: Tensor, threshold: float) -> Tensor:
    """The rule, element by element."""
    moves = [threshold if x >= threshold else -threshold if x <= -threshold else 0.0 for x in given.tolist()]
    return torch.tensor(moves)


@pytest.mark.parametrize("name", THRESHOLDS)
@pytest.mark.parametrize("count", ODD)
@pytest.mark.parametrize("threshold", [0.25, 1.0, 100.0])
def test_what_reaches_the_threshold_moves_by_it(name: str, count: int, threshold: float) -> None:
    given = normal(count)
    given[0] = -threshold
    sent = travel(opened_for(name, count, False, threshold=threshold), given)
    assert torch.equal(sent, beyond(given, threshold))


@pytest.mark.parametrize("name", THRESHOLDS)
def test_a_large_element_moves_once_a_message_and_a_small_one_when_it_has_come_together(name: str) -> None:
    codec = opened_for(name, 3, threshold=1.0)
    first = travel(codec, torch.tensor([3.5, 0.25, -0.25]))
    assert first.tolist() == [1, 0, 0]
    sent = [travel(codec, torch.tensor([0.0, 0.25, -0.25])).tolist() for _ in range(4)]
    assert sent == [[1, 0, 0], [1, 0, 0], [0, 1, -1], [0, 0, 0]]
    assert codec.state()["rest"].tolist() == [0.5, 0.25, -0.25]


def test_two_bits_are_two_bits() -> None:
    """Four elements in a byte, the first in the lowest bits: 1 is plus, 2 is minus."""
    payload = encode(
        opened_for("two-bit", 5, False, threshold=1.0), torch.tensor([1.0, -1.0, 0.0, 1.0, -9.0])
    )
    assert bytes(payload) == bytes([0b01_00_10_01, 0b10])


@pytest.mark.parametrize("count", [1000, 50_000, 3 * BLOCK])
@pytest.mark.parametrize("every", [1, 2, 9, 100, 1000])
def test_what_thresholds_cost(count: int, every: int) -> None:
    """17 bits for an element where few are sent, and never more than two for each there is, beside the head."""
    given = torch.zeros(count)
    given[::every] = -1.0
    chosen = -(-count // every)
    size = len(encode(opened_for("threshold", count, threshold=0.5), given))
    assert size == SIGNED_HEAD + place_bytes(count, chosen) + -(-chosen // 8)
    way = encoding("threshold")
    assert size <= way.bytes("float32", count) == 8 + 2 * -(-count // 8)
    assert every < 100 or size <= 8 + 17 / 8 * chosen + 13


def messages() -> list[tuple[UnitCodec, memoryview]]:
    """Of 600 elements."""
    found = []
    for name in ("threshold", "adacomp"):
        codec = opened_for(name, 600, False)
        found.append((codec, encode(codec, normal(600))))
    return found


def test_messages_say_where_they_end() -> None:
    """In rounds, finished sums of several ranks lie one after the other in a message, each as long as it says."""
    for codec, payload in messages():
        way = encoding("threshold" if len(payload) > 100 else "adacomp")
        behind = kept(joined([payload, kept(as_bytes(torch.full((9,), 255, dtype=torch.uint8)))]))
        assert way.extent("float32", 600, behind) == len(payload)
        assert way.extent("float32", 0, behind) == 0
        assert codec.decode(payload, [torch.empty(600)]) is None


def test_a_message_that_contradicts_itself_is_refused() -> None:
    for codec, payload in messages():
        more = bytearray(payload)
        more[0] += 1
        for wrong in (memoryview(more), payload[:4], payload[:9]):
            with pytest.raises(RuntimeError, match="came"):
                codec.decode(wrong, [torch.empty(600)])


def by_the_rule(gradient: Tensor, rest: Tensor, size: int) -> Tensor:
    """AdaComp as its paper has it, bin by bin and element by element."""
    total = gradient + rest
    largest = [total[start : start + size].abs().max().item() for start in range(0, len(total), size)]
    scale, sent = sum(largest) / len(largest), torch.zeros_like(total)
    for index, (one, more) in enumerate(zip(total.tolist(), gradient.tolist(), strict=True)):
        if abs(one + more) >= largest[index // size] and one:
            sent[index] = scale if one > 0 else -scale
    return sent


@pytest.mark.parametrize("count", ODD[:-1])
@pytest.mark.parametrize("size", [2, 50, 500])
def test_adacomp_sends_what_stands_out_of_its_bin(count: int, size: int) -> None:
    codec, rest = opened_for("adacomp", count, bin=size, dtype=torch.float64), torch.zeros(count).double()
    for step in range(5):
        gradient = normal(count, seed=step, dtype=torch.float32).double()
        sent = travel(codec, gradient)
        assert torch.allclose(sent, by_the_rule(gradient, rest, size), rtol=1e-6)
        rest = rest + gradient - sent
        assert torch.allclose(codec.state()["rest"], rest)


def test_adacomp_means_sizes_whose_sum_is_too_large_for_float32() -> None:
    given = torch.full((1000,), 3e38)
    assert torch.allclose(travel(opened_for("adacomp", 1000, bin=2), given), given)


def test_adacomp_sends_the_more_the_more_alike_gradients_are() -> None:
    """One of each bin where one is large; all where all are equal; none where all are zero."""
    one_of_each, sent = torch.ones(5000), []
    one_of_each[7::500] = -10.0
    for given in (one_of_each, torch.ones(5000), torch.zeros(5000)):
        sent.append(int((travel(opened_for("adacomp", 5000), given) != 0).sum()))
    assert sent == [10, 5000, 0]


@pytest.mark.parametrize(
    ("codec", "options", "message"),
    [
        ("two-bit", {"threshold": 0.0}, "from 1e-30 to 1e\\+30"),
        ("threshold", {"threshold": float("inf")}, "from 1e-30 to 1e\\+30"),
        ("adacomp", {"bin": 1}, "at least 2"),
    ],
)
def test_options_are_checked(codec: str, options: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        encoding(codec, options)
    assert caught.value.field == f"codec_options.{next(iter(options))}"


def test_absent_gradients_have_no_bytes() -> None:
    """A unit of which nothing is there in a step."""
    for name in ("two-bit", "threshold", "adacomp"):
        codec = opened_for(name, 600)
        assert len(joined([as_bytes(tensor) for tensor in codec.encode([], [])])) == 0
        codec.decode(memoryview(b""), [])
