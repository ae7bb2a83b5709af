"""Places in Golomb-Rice code: they come back, in as few bits as the code has, never in many more than without it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from engine.axes.codec_sizes import (
    BLOCK,
    MOST_CODED,
    RICE_HEAD,
    listed_bytes,
    place_bytes,
    place_extent,
)
from engine.codec.places import Places, packed, unpacked
from engine.codec.rice import MOST_LOW, coded
from engine.errors import UserError
from engine.plan.encoding import encoding
from engine.tensor_bytes import as_bytes, joined, kept
from engine.transport.message import HEADER_BYTES
from tests.contracts.test_codecs_sparse import encode, normal, opened_for, travel

SIZES = [2, 3, 7, 16, 100, 1001, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5]


def kinds_of_places(count: int) -> list[Places]:
    """Few and many, at random, side by side at either end, evenly spread, and in clumps far apart."""
    random = np.random.default_rng(count)
    numbers = {1, 2, count // 1000, count // 277, count // 20, count // 3, count // 2, count - 1}
    found = []
    for chosen in sorted(number for number in numbers if 0 < number <= count):
        found += [
            np.sort(random.choice(count, chosen, replace=False)),
            np.arange(chosen),
            np.arange(count - chosen, count),
            np.arange(chosen) * (count // chosen),
            np.unique(
                (random.integers(0, 3, chosen) * (count // 3) + random.integers(0, chosen, chosen)) % count
            ),
        ]
    return found  # fmt: skip


def by_the_rule(places: Places, low: int) -> str:
    """The code's bits, place by place, without its head: low bits, then the rest in unary."""
    gaps = [after - before - 1 for before, after in pairwise([-1, *places.tolist()])]
    bits = "".join(format(gap & ((1 << low) - 1), f"0{low}b") for gap in gaps) if low else ""
    unary = "".join("0" * (gap >> low) + "1" for gap in gaps)
    return bits + unary + "0" * (-len(bits + unary) % 8)


@pytest.mark.parametrize("count", [1, *SIZES])
def test_places_come_back_in_no_more_than_a_byte_above_what_they_take_uncoded(count: int) -> None:
    for places in (np.arange(0), np.arange(count), *kinds_of_places(count)):
        chosen = len(places)
        code = packed(places, count, entropy_coding=True)
        assert np.array_equal(unpacked(code, count, chosen, entropy_coding=True), places)
        plain = place_bytes(count, chosen)
        assert len(code) <= (plain + MOST_CODED if plain else 0)
        behind = memoryview(bytes(code) + b"\xff" * 9)
        assert place_extent(count, chosen, behind, entropy_coding=True) == len(code)


@pytest.mark.parametrize("count", SIZES[:6])
def test_the_code_is_the_rule_with_the_parameter_that_is_shortest(count: int) -> None:
    for places in kinds_of_places(count):
        lengths = [len(by_the_rule(places, low)) // 8 for low in range(MOST_LOW + 1)]
        found = coded(places, 10**9)
        assert found is not None
        low = int(found[0])
        assert len(found) - RICE_HEAD == lengths[low] == min(lengths)
        assert "".join(format(byte, "08b") for byte in found[RICE_HEAD:]) == by_the_rule(places, low)
        assert coded(places, len(found)) is None, "not shorter"


def test_gaps_of_all_sizes_have_a_code() -> None:
    """Up to what a message can count, with low bits of one, two and four bytes."""
    for gap in (1, 200, 2**8, 2**9, 2**15, 2**16, 2**17, 2**24, 2**30):
        places = np.cumsum([gap, gap + 1, 2, gap])
        code = coded(places, 10**9)
        assert code is not None
        assert np.array_equal(unpacked(code, 2**32 - 1, 4, entropy_coding=True), places)


@pytest.mark.parametrize("share", [0.0001, 0.0036, 0.01, 0.1])
def test_a_uniform_place_takes_little_more_than_its_information(share: float) -> None:
    count = 2_000_000
    places = np.flatnonzero(np.random.default_rng(1).random(count) < share)
    information = -np.log2(share) - (1 - share) / share * np.log2(1 - share)
    bits = 8 * len(packed(places, count, entropy_coding=True)) / len(places)
    assert information - 0.3 <= bits <= information + 0.13 + 8 * (RICE_HEAD + 2) / len(places)
    assert bits < 8 * listed_bytes(count, len(places)) / len(places)


@pytest.mark.parametrize("layers", [1, 10])
def test_an_update_of_stroms_network_has_the_size_that_his_has(layers: int) -> None:
    """A network of 14.6 million parameters of which 52,500 elements (0.36 %) are sent, at uniform places, as one unit
    or layer by layer, the transport's headers counted: 0.21 MB in his table, and about a third of that coded."""
    count, chosen = 14_600_000, 52_500
    places = np.random.default_rng(1).choice(count, chosen, replace=False)
    update = torch.zeros(count)
    update[torch.from_numpy(places)] = normal(chosen, seed=2).sign()
    sizes: dict[bool, int] = {}
    for entropy_coding in (False, True):
        codec = opened_for("threshold", count, False, threshold=0.5, entropy_coding=entropy_coding)
        sizes[entropy_coding] = 0
        for part in update.tensor_split(layers):
            payload = encode(codec, part)
            sizes[entropy_coding] += HEADER_BYTES + len(payload)
            found = torch.empty_like(part)
            codec.decode(payload, [found])
            assert torch.equal(found, part / 2)
    assert sizes[False] <= 210_000
    assert sizes[True] <= 75_000


CODED: dict[str, dict[str, Any]] = {
    "top-k": {"ratio": 0.02},
    "threshold": {"threshold": 2.0},
    "adacomp": {"bin": 50},
    "dgc": {"ratio": 0.02},
}


@pytest.mark.parametrize("name", CODED)
def test_a_coded_message_says_the_same_in_fewer_bytes(name: str) -> None:
    given = normal(5000)
    codec = opened_for(name, 5000, False, entropy_coding=True, **CODED[name])
    plain = opened_for(name, 5000, False, **CODED[name])
    payload, way = encode(codec, given), encoding(name, CODED[name], entropy_coding=True)
    assert len(payload) < len(encode(plain, given))
    found, expected = torch.empty(5000), torch.empty(5000)
    codec.decode(payload, [found])
    plain.decode(encode(opened_for(name, 5000, False, **CODED[name]), given), [expected])
    assert torch.equal(found, expected)
    assert way.extent("float32", 5000, kept(joined([payload, payload]))) == len(payload)
    assert not way.exact
    assert way.by_value
    assert encoding(name, CODED[name]).bytes("float32", 5000) + 1 == way.bytes("float32", 5000)


@pytest.mark.parametrize("name", CODED)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 9, 50])
def test_small_messages_are_within_what_is_declared(name: str, count: int) -> None:
    codec = opened_for(name, count, entropy_coding=True, **CODED[name])
    way, given = encoding(name, CODED[name], entropy_coding=True), normal(count)
    payload = joined([as_bytes(part) for part in codec.encode([given], [0])])
    assert len(payload) == way.extent("float32", count, payload) <= way.bytes("float32", count)
    found = torch.empty(count)
    codec.decode(payload, [found])
    if count == 1 and name != "threshold":
        assert torch.equal(found, given)


def test_all_elements_or_none_are_sent_without_a_word_of_places() -> None:
    given = torch.ones(600)
    for sent in (given, torch.zeros(600)):
        codec = opened_for("threshold", 600, threshold=1.0, entropy_coding=True)
        assert torch.equal(travel(codec, sent), sent)
    assert (
        len(encode(opened_for("threshold", 600, threshold=1.0, entropy_coding=True), given)) == 8 + 600 // 8
    )


def test_a_code_that_contradicts_itself_is_refused() -> None:
    """What it says of places beside the unit would be written there."""
    places = np.array([3, 300, 301, 900])
    code = coded(places, 10**9)
    assert code is not None
    assert len(unpacked(code, 901, 4, entropy_coding=True)) == 4
    with pytest.raises(RuntimeError, match="4 places came where 4 of 900"):
        unpacked(code, 900, 4, entropy_coding=True)
    with pytest.raises(RuntimeError, match="elements came where 3 were sent"):
        unpacked(code, 901, 3, entropy_coding=True)
    cut = code[: RICE_HEAD + 4]
    with pytest.raises(RuntimeError, match="elements came where 4"):
        unpacked(cut, 901, 4, entropy_coding=True)
    with pytest.raises(RuntimeError, match="have 32 low bits, of at most 31"):
        unpacked(np.concatenate(([np.uint8(32)], code[1:])), 901, 4, entropy_coding=True)
    for wrong in (code[:2], np.concatenate((code, code[:1]))):
        payload = memoryview(bytes([4, 0, 0, 0, 0, 0, 128, 63, *wrong, 0]))
        with pytest.raises(RuntimeError, match="bytes came for 901 elements of fc6"):
            opened_for("threshold", 901, entropy_coding=True).decode(payload, [torch.empty(901)])


@pytest.mark.parametrize("name", ["fp32", "int8", "two-bit"])
def test_what_says_something_of_every_element_has_no_places_to_code(name: str) -> None:
    with pytest.raises(
        UserError, match=r"of every element.*use one of: top-k, threshold, adacomp, dgc"
    ) as caught:
        encoding(name, entropy_coding=True)
    assert caught.value.field == "entropy_coding"
