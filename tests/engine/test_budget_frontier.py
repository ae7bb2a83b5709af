"""Keep, swap or recompute for each block: every choice tried, passes played tensor by tensor, budgets in order."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.budget import frontier
from engine.budget.blocks import Action, BlockCosts, Chosen
from engine.budget.frontier import Frontier
from engine.budget.prediction import Prediction, predict
from engine.errors import UserError

KEEP, SWAP = Chosen(Action.KEEP), Chosen(Action.SWAP)
LATE = Chosen(Action.SWAP, late=True)
AGAIN, JOINED = Chosen(Action.RECOMPUTE), Chosen(Action.RECOMPUTE, True)
RATE = 10**9
"""One byte in a nanosecond."""


@st.composite
def models(draw: st.DrawFn, most: int = 5) -> list[BlockCosts]:
    """Blocks that agree with one another on what is there twice."""
    size = st.integers(0, 6)
    blocks: list[BlockCosts] = []
    output = 0
    for at in range(draw(st.integers(1, most))):
        takes, saves_input, saves = draw(size), draw(size), draw(size)
        saved_input = min(takes, saves_input)
        blocks.append(
            BlockCosts(
                name=f"b{at}",
                saved_bytes=saved_input + saves,
                input_bytes=takes,
                forward_ns=draw(size),
                backward_ns=draw(size),
                working_bytes=draw(size),
                saved_input_bytes=saved_input,
                shared_bytes=min(takes, output),
                swapped_bytes=draw(st.none() | st.integers(0, saved_input + saves)),
                recomputable=draw(st.integers(0, 4)) > 0,
                joins=draw(st.booleans()),
            )
        )
        output = draw(st.integers(0, saves))
    return blocks


@settings(max_examples=250, deadline=None, derandomize=True)
@given(models(), st.booleans(), st.integers(0, 1), st.integers(0, 3))
def test_no_choice_is_faster(blocks: list[BlockCosts], with_tier: bool, begins: int, held: int) -> None:
    others: dict[str, Any] = {
        "swap_bytes_per_second": RATE if with_tier else None,
        "swap_begins_ns": begins,
        "held_bytes": held,
    }
    every = [predict(blocks, chosen, **others)[:2] for chosen in possible(blocks, with_tier)]
    best = Frontier(blocks, **others)
    assert best.least_bytes == min(peak for peak, _ in every)
    assert best.points == [
        (peak, time) for peak, time in sorted(set(every)) if all(t > time for p, t in every if p < peak)
        and (peak, time) == min(each for each in every if each[0] == peak)
    ]  # fmt: skip
    for budget in range(best.least_bytes, best.points[-1][0] + 2):
        found = best.choose(budget).prediction
        assert found.peak_bytes <= budget
        assert found.time_ns == min(time for peak, time in every if peak <= budget) == best.bound(budget)
    with pytest.raises(UserError, match=f"needs less than {best.least_bytes:,} bytes"):
        best.choose(best.least_bytes - 1)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(models(), st.data())
def test_what_is_predicted_is_what_a_pass_takes(blocks: list[BlockCosts], data: st.DataObject) -> None:
    chosen = data.draw(st.sampled_from(list(possible(blocks, True))))
    found = predict(blocks, chosen, swap_bytes_per_second=RATE, swap_begins_ns=100, held_bytes=7)
    played = Pass(blocks, chosen).played()
    assert found.time_ns == played.time + 100 * chosen.count(SWAP)
    moves_shared = any(one is SWAP and two.shared_bytes for one, two in zip(chosen, blocks[1:], strict=False))
    keeps_moved = any(two is SWAP and block.twice_bytes for two, block in zip(chosen, blocks, strict=True))
    if moves_shared or keeps_moved:  # such a tensor is counted where it stays and where it is moved
        assert found.peak_bytes >= 7 + played.peak
    else:
        assert found.peak_bytes == 7 + played.peak


def test_a_choice_is_predicted_in_detail() -> None:
    """Three blocks, each of which saves its input of 10 bytes and 20 more, and works in 5."""
    blocks = [
        block(name, saved_bytes=30, input_bytes=10, saved_input_bytes=10, working_bytes=5, joins=True)
        for name in "abc"
    ]
    kept = predict(blocks, [KEEP, KEEP, KEEP])
    assert kept == Prediction(95, 360, (35, 65, 95), (35, 65, 95), 0, 0)
    again = predict(blocks, [AGAIN, AGAIN, KEEP])
    assert again == Prediction(55, 560, (15, 25, 55), (35, 45, 55), 200, 0)
    joined = predict(blocks, [AGAIN, JOINED, KEEP], held_bytes=1000)
    assert joined == Prediction(1065, 560, (1015, 1015, 1045), (1035, 1065, 1045), 200, 0)
    swapped = predict(blocks, [SWAP, KEEP, KEEP], swap_bytes_per_second=RATE // 5, swap_begins_ns=3)
    assert swapped == Prediction(65, 360 + 183, (35, 65, 65), (35, 65, 65), 0, 3 + 50 + 130)
    late = predict(blocks, [LATE, KEEP, KEEP], swap_bytes_per_second=RATE // 5, swap_begins_ns=3)
    assert late == Prediction(65, 360 + 203, (35, 65, 65), (35, 35, 65), 0, 3 + 50 + 150)
    with pytest.raises(UserError, match=r"a\.activations = 'keep': only what is swapped comes late"):
        predict(blocks, [Chosen(Action.KEEP, late=True), KEEP, KEEP])


def test_what_two_neighbours_save_is_there_once() -> None:
    """The second one's input is the first one's output, which both save."""
    shared = {"saved_bytes": 30, "input_bytes": 10, "saved_input_bytes": 10}
    blocks = [block("a", **shared), block("b", **shared, shared_bytes=10)]
    assert predict(blocks, [KEEP, KEEP]).peak_bytes == 50
    assert predict(blocks, [AGAIN, KEEP]).peak_bytes == 40, "the second one keeps it alone"
    assert predict(blocks, [KEEP, AGAIN]).peak_bytes == 50, "it is there for the second one already"
    assert predict(blocks, [AGAIN, AGAIN]).peak_bytes == 40


def test_the_least_that_is_possible_is_said() -> None:
    blocks = [block(str(at), saved_bytes=1000, input_bytes=100, saved_input_bytes=100) for at in range(4)]
    with pytest.raises(
        UserError,
        match=r"memory.budget = 1299: no choice for the model's blocks needs less than 1,300 bytes. Give that or more",
    ):
        Frontier(blocks).choose(1299)
    assert Frontier(blocks).choose(1300).chosen == (AGAIN, AGAIN, AGAIN, KEEP)


def test_blocks_are_computed_again_together_where_memory_is_shortest() -> None:
    """Chen's √n: sixteen equal blocks fit where one input each does not."""
    blocks = [
        block(str(at), saved_bytes=20, input_bytes=10, saved_input_bytes=10, joins=True) for at in range(16)
    ]
    best = Frontier(blocks)
    assert best.least_bytes < Frontier([without_joining(each) for each in blocks]).least_bytes
    chosen = best.choose(best.least_bytes).chosen
    assert JOINED in chosen
    assert predict(blocks, chosen).peak_bytes == best.least_bytes


def test_a_smaller_budget_never_has_a_higher_peak() -> None:
    """Of a large model no two of whose blocks are alike."""
    blocks = unlike(120)
    best = Frontier(blocks, swap_bytes_per_second=4 * 10**9, held_bytes=10**8)
    most = best.points[-1][0]
    chance = random.Random(2)
    budgets = sorted(chance.randint(best.least_bytes, most) for _ in range(200))
    found = [best.choose(budget).prediction for budget in budgets]
    assert all(each.peak_bytes <= budget for each, budget in zip(found, budgets, strict=True))
    assert all(a.peak_bytes <= b.peak_bytes and a.time_ns >= b.time_ns for a, b in pairwise(found))
    assert len({each.peak_bytes for each in found}) > 50
    assert best.choose(most).chosen == (KEEP,) * 120
    actions = {choice.action for budget in budgets for choice in best.choose(budget).chosen}
    assert actions == set(Action)


def test_points_are_what_choices_take() -> None:
    best = Frontier(unlike(30), swap_bytes_per_second=10**9)
    for peak, time in best.points:
        assert best.choose(peak).prediction[:2] == (peak, time)


def test_thinned_sets_lose_no_more_than_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = unlike(25)
    exact = Frontier(blocks, swap_bytes_per_second=10**9)
    assert all(exact.bound(peak) == time for peak, time in exact.points)
    monkeypatch.setattr(frontier, "MOST", 20)
    thinned = Frontier(blocks, swap_bytes_per_second=10**9)
    assert thinned.least_bytes == exact.least_bytes
    assert thinned.points[-1] == exact.points[-1]
    gaps = []
    for peak, _ in exact.points[::5]:
        bound, best, found = (
            thinned.bound(peak), exact.choose(peak).prediction.time_ns, thinned.choose(peak).prediction.time_ns
        )  # fmt: skip
        assert bound <= best <= found
        gaps.append(found - bound)
    assert max(gaps) > 0


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ([KEEP], "choices = 1: there are 2 blocks. Choose for each of them"),
        ([KEEP, SWAP], "b.activations = 'swap': there is no second tier of memory"),
        ([AGAIN, KEEP], "a.activations = 'recompute': it cannot be computed again. Keep or swap it"),
        (
            [KEEP, JOINED],
            "b.activations = 'recompute': it cannot be computed again together with the block before",
        ),
    ],
)
def test_choices_that_are_refused(chosen: list[Chosen], said: str) -> None:
    with pytest.raises(UserError, match=said):
        predict([block("a", recomputable=False), block("b", joins=True)], chosen)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"saved_bytes": -1}, "a.saved_bytes = -1: must not be negative"),
        ({"saved_input_bytes": 31}, "a.saved_input_bytes = 31: is a part of 10 bytes"),
        ({"shared_bytes": 11}, "a.shared_bytes = 11: is a part of 10 bytes"),
        ({"swapped_bytes": 31}, "a.swapped_bytes = 31: is a part of 30 bytes"),
    ],
)
def test_blocks_that_are_refused(wrong: dict[str, int], said: str) -> None:
    with pytest.raises(UserError, match=said):
        block("a", **wrong)
    with pytest.raises(UserError, match="there is nothing to choose for"):
        Frontier([])


def block(name: str, **values: Any) -> BlockCosts:
    given: dict[str, Any] = {
        "saved_bytes": 30,
        "input_bytes": 10,
        "forward_ns": 100,
        "backward_ns": 20,
        **values,
    }
    return BlockCosts(name=name, **given)


def without_joining(one: BlockCosts) -> BlockCosts:
    return BlockCosts(**{**vars(one), "joins": False})


def unlike(count: int) -> list[BlockCosts]:
    chance = random.Random(count)
    return [
        block(
            str(at),
            input_bytes=(takes := chance.randint(10**5, 10**7)),
            saved_bytes=takes + chance.randint(10**5, 3 * 10**7),
            saved_input_bytes=takes,
            shared_bytes=takes // 2 * (at > 0),
            working_bytes=chance.randint(0, 10**7),
            forward_ns=chance.randint(10**5, 10**7),
            backward_ns=chance.randint(10**5, 2 * 10**7),
            joins=chance.random() < 0.5,
        )
        for at in range(count)
    ]


def possible(blocks: Sequence[BlockCosts], with_tier: bool) -> Iterator[tuple[Chosen, ...]]:
    """Every choice that may be asked for."""
    for chosen in product((KEEP, SWAP, AGAIN, JOINED), repeat=len(blocks)):
        if SWAP in chosen and not with_tier:
            continue
        before = KEEP
        for one, choice in zip(blocks, chosen, strict=True):
            again = choice.action is Action.RECOMPUTE
            if (again and not one.recomputable) or (
                choice.joined and not (one.joins and before.action is Action.RECOMPUTE)
            ):
                break
            before = choice
        else:
            yield chosen


class Pass:
    """A pass, played byte by byte: a byte is in memory as long as somebody has it, and copies take their time."""

    def __init__(self, blocks: Sequence[BlockCosts], chosen: Sequence[Chosen]) -> None:
        self.time = self.peak = 0
        self._blocks, self._chosen = blocks, chosen
        self._had: Counter[Byte] = Counter()

    def played(self) -> Pass:
        last = len(self._blocks) - 1
        for at, (one, choice) in enumerate(zip(self._blocks, self._chosen, strict=True)):
            if not choice.joined:
                self._take(self._input(at) if choice.action is Action.RECOMPUTE else self._saved(at))
            self._look(one.working_bytes)
            self.time += max(one.forward_ns, len(self._away(at - 1)))
            self._let_go(self._away(at - 1))
        self._let_go(self._away(last))
        self._take(self._back(last))
        self.time += 2 * len(self._away(last))
        for at in range(last, -1, -1):
            one, choice = self._blocks[at], self._chosen[at]
            if choice.action is Action.RECOMPUTE and (at == last or not self._chosen[at + 1].joined):
                self._again(at)
            self._take(self._back(at - 1))
            self._look(one.working_bytes)
            self.time += max(one.backward_ns, len(self._away(at - 1)))
            self._let_go([byte for byte in self._saved(at) if byte not in self._away(at)] + self._back(at))
            if choice.action is Action.RECOMPUTE and not choice.joined:
                self._let_go(self._input(at))
        assert not +self._had
        return self

    def _again(self, at: int) -> None:
        first = at
        while self._chosen[first].joined:
            first -= 1
        for each in range(first, at + 1):
            self._take(self._saved(each))
            self._look(self._blocks[each].working_bytes)
            self.time += self._blocks[each].forward_ns

    def _input(self, at: int) -> list[Byte]:
        return [("input", at, n) for n in range(self._blocks[at].input_bytes)]

    def _saved(self, at: int) -> list[Byte]:
        """Of its input, of its output, which the next one takes, and what is its own."""
        output = self._blocks[at + 1].shared_bytes if at + 1 < len(self._blocks) else 0
        own = self._blocks[at].saved_bytes - self._blocks[at].saved_input_bytes - output
        return [
            *self._input(at)[: self._blocks[at].saved_input_bytes],
            *(("input", at + 1, n) for n in range(output)),
            *(("own", at, n) for n in range(own)),
        ]

    def _away(self, at: int) -> list[Byte]:
        swapped = at >= 0 and self._chosen[at].action is Action.SWAP
        return self._saved(at)[: self._blocks[at].leaving_bytes] if swapped else []

    def _back(self, at: int) -> list[Byte]:
        return [("back", at, n) for n in range(len(self._away(at)))]

    def _take(self, some: list[Byte]) -> None:
        self._had.update(some)

    def _let_go(self, some: list[Byte]) -> None:
        assert all(self._had[byte] for byte in some)
        self._had.subtract(some)

    def _look(self, working: int) -> None:
        self.peak = max(self.peak, len(+self._had) + working)


Byte = tuple[str, int, int]
"""Of whom, of which block, which."""
