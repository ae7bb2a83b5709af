"""What codecs draw at random: another stream for every unit, sender and message, and the same one in every run."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch

from engine.codec.base import Piece
from engine.codec.draws import Draws, seed_of


def draws(seed: int = 5) -> Draws:
    return Draws(Piece(name="fc6", count=10, dtype=torch.float32, seed=seed))


def numbers(made: Draws, count: int = 8) -> list[int]:
    return made.generator().random_raw(count).tolist()


def test_every_unit_and_sender_of_every_job_has_a_seed_of_its_own() -> None:
    asked = list(product((0, 1, 11), (0, 1, 11), ("worker 0", "worker 1", "worker 10", "shard 0")))
    found = [seed_of(*each) for each in asked]
    assert len(set(found)) == len(asked)
    assert found == [seed_of(*each) for each in asked]
    assert all(0 <= seed < 2**64 for seed in found)


def test_a_seed_is_the_same_in_every_version() -> None:
    """A job that runs again next year sends the same bytes."""
    assert seed_of(0, 3, "worker 1") == 2875992895091170233


def test_messages_have_streams_of_their_own_whatever_was_drawn_before() -> None:
    one, other = draws(), draws()
    first = numbers(one)
    assert numbers(one) == first, "asking changes nothing"
    numbers(other, 100)
    one.sent()
    other.sent()
    assert numbers(one) == numbers(other) != first
    assert numbers(draws(6)) != numbers(draws(5)) == first


def test_the_count_of_messages_is_the_state() -> None:
    made = draws()
    assert made.state() == {}
    for _ in range(3):
        made.sent()
    resumed = draws()
    resumed.load(made.state())
    assert numbers(resumed) == numbers(made)
    made.sent()
    assert numbers(resumed) != numbers(made)
    resumed.load({})
    assert numbers(resumed) == numbers(draws())


@pytest.mark.parametrize(
    "wrong",
    [
        {"messages": torch.tensor(-1)},
        {"messages": torch.tensor(1.0)},
        {"messages": torch.tensor([1])},
        {"messages": torch.tensor(1), "rest": torch.zeros(3)},
    ],
)
def test_what_is_no_count_is_refused(wrong: dict[str, Any]) -> None:
    made = draws()
    made.sent()
    before = numbers(made)
    with pytest.raises(ValueError, match="fc6 remembers how many messages"):
        made.load(wrong)
    assert numbers(made) == before
