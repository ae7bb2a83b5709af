"""What a codec must hold whose contributions all workers sum in phases: PowerSGD as it was published, counted exactly,
and nothing lost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.axes.codec import CODEC
from engine.axes.codec_options import PowerSgdOptions
from engine.axes.matrices import rows_of
from engine.codec.base import Piece
from engine.codec.factoring import orthonormal
from engine.codec.summed_powersgd import SummedPowerSgd
from engine.errors import TrainingError
from engine.plan.encoding import encoding
from tests.contracts.test_codecs_feedback import normal
from tests.contracts.test_codecs_matrices import COUNT, HEIGHT, LAYER, WIDTH, of_rank

SIZES = (HEIGHT * WIDTH, HEIGHT)
WORKERS = 3
Floats = NDArray[np.float64]


def made(rank: int = 2, *, dtype: torch.dtype = torch.float64, seed: int = 1) -> SummedPowerSgd:
    piece = Piece(name="conv1", count=COUNT, dtype=dtype, rows=LAYER, seed=seed)
    return SummedPowerSgd(piece, PowerSgdOptions(rank=rank))


def given(seed: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """A worker's gradients of a layer: a weight, and a bias."""
    return [normal(size, 10 * seed + number, dtype) for number, size in enumerate(SIZES)]


def step(
    codecs: Sequence[SummedPowerSgd],
    gradients: Sequence[Sequence[Tensor]],
    there: Sequence[bool] = (True, True),
) -> list[list[Tensor]]:
    """By worker: what all of them come to. Sums are made as an allreduce makes them, in the numbers' own type."""
    first = torch.stack([codec.begin(each) for codec, each in zip(codecs, gradients, strict=True)]).sum(dim=0)
    second = torch.stack([codec.go_on(first) for codec in codecs]).sum(dim=0)
    assert (len(first), len(second)) == encoding("powersgd", {"rank": codecs[0]._rank}).phases(LAYER)
    found = [[torch.empty_like(part) for part in each] for each in gradients]
    for codec, parts in zip(codecs, found, strict=True):
        codec.end([first, second], parts, there)
    return found


class Published:
    """Algorithms 1 and 2 of the paper, of one matrix, for its workers: theirs are means."""

    def __init__(self, basis: Floats) -> None:
        self.basis = basis
        self.errors: list[Floats] = [np.zeros((HEIGHT, WIDTH))] * WORKERS

    def step(self, gradients: Sequence[Floats]) -> Floats:
        wanted = [gradient + error for gradient, error in zip(gradients, self.errors, strict=True)]
        left, _ = np.linalg.qr(np.mean([each @ self.basis for each in wanted], axis=0))
        own = [each.T @ left for each in wanted]
        self.errors = [each - left @ right.T for each, right in zip(wanted, own, strict=True)]
        self.basis = np.mean(own, axis=0)
        return left @ self.basis.T


def test_these_are_all_that_are_summed_in_phases() -> None:
    linear = [row.name for row in CODEC if "linear" in row.traits]
    assert linear == [row.name for row in CODEC if row.summed is not None] == ["powersgd"]
    assert linear == [row.name for row in CODEC if row.phases is not None]


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_it_is_the_published_algorithm(rank: int) -> None:
    """The mean in so few directions, of what was given and what was lost, on a basis that goes on from step to step."""
    codecs = [made(rank) for _ in range(WORKERS)]
    published = Published(codecs[0]._bases.of(0, WIDTH).numpy().copy())
    for number in range(15):
        gradients = [given(WORKERS * number + worker) for worker in range(WORKERS)]
        mean = published.step([weight.view(HEIGHT, WIDTH).numpy() for weight, _ in gradients])
        for codec, (weight, bias), error in zip(
            codecs, step(codecs, gradients), published.errors, strict=True
        ):
            matrix = weight.view(HEIGHT, WIDTH)
            assert np.allclose(matrix.numpy() / WORKERS, mean, rtol=0, atol=1e-10)
            assert torch.linalg.matrix_rank(matrix) == rank
            assert torch.allclose(
                bias, torch.stack([each[1] for each in gradients]).sum(dim=0), rtol=0, atol=1e-12
            )
            rest = codec.state()["rest"]
            assert np.allclose(rest[: SIZES[0]].view(HEIGHT, WIDTH).numpy(), error, rtol=0, atol=1e-10)


def test_what_is_summed_is_counted_exactly() -> None:
    """Two factors, and what has no rows with the first one: no heads."""
    way = encoding("powersgd", {"rank": 3})
    assert way.phases(LAYER) == (3 * HEIGHT + HEIGHT, 3 * WIDTH)
    assert way.phases((rows_of((10, 10), 0, 100),)) == (100,), "it would not become half as long"
    assert encoding("int8").phases(LAYER) == ()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_what_was_sent_and_what_is_left_is_what_was_given(dtype: torch.dtype) -> None:
    """Over all workers, to rounding; of a type of 16 bits, to the rounding of sums in it."""
    codecs = [made(dtype=dtype) for _ in range(WORKERS)]
    all_given, all_found = torch.zeros(COUNT).double(), torch.zeros(COUNT).double()
    for number in range(100):
        gradients = [given(WORKERS * number + worker, dtype) for worker in range(WORKERS)]
        all_given += sum(torch.cat(each).double() for each in gradients)
        all_found += torch.cat(step(codecs, gradients)[0]).double()
    left = sum(codec.state()["rest"].double() for codec in codecs)
    far = {torch.float64: 1e-12, torch.float32: 1e-4, torch.bfloat16: 1.0}[dtype]
    assert torch.allclose(all_found + left, all_given, rtol=0, atol=far)


def test_workers_come_to_the_same_bits_with_any_number_of_threads() -> None:
    """Replicas go on from their own products."""
    before = torch.get_num_threads()
    codecs, columns = [made(4, dtype=torch.float32) for _ in range(WORKERS)], normal(4 * 50_000).view(-1, 4)
    seen = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            seen.append(orthonormal(columns))
        for number in range(3):
            found = step(
                codecs, [given(WORKERS * number + worker, torch.float32) for worker in range(WORKERS)]
            )
            assert all(torch.equal(a, b) for each in found[1:] for a, b in zip(each, found[0], strict=True))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*seen)
    bases = [codec.state()["basis 0"] for codec in codecs]
    assert all(torch.equal(basis, bases[0]) for basis in bases)


@pytest.mark.parametrize("rank", [1, 3])
def test_what_is_orthonormal_is_left_as_it_was_given(rank: int) -> None:
    columns = normal(rank * 20, dtype=torch.float64).view(20, rank)
    before = columns.clone()
    found = orthonormal(columns)
    assert torch.equal(columns, before)
    assert torch.allclose(found.t() @ found, torch.eye(rank).double(), rtol=0, atol=1e-12)
    assert not orthonormal(torch.zeros(20, rank)).any()
    twice = orthonormal(torch.cat([columns, columns], dim=1))
    assert torch.equal(twice[:, :rank], found)
    assert not twice[:, rank:].any(), "what the others span already"


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_sizes_do_not_matter(size: float) -> None:
    """Nor do they over steps, in which a basis is made of the last one's sums."""
    codecs = [made(dtype=torch.float32) for _ in range(2)]
    weight, bias = of_rank(2, torch.float32).view(-1) * size, torch.zeros(HEIGHT)
    for _ in range(3):
        found = step(codecs, [[weight, bias], [weight, bias]])[0][0]
        assert torch.allclose(found, 2 * weight, rtol=0, atol=1e-4 * float(weight.abs().max()))


def test_nothing_leaves_room_for_what_comes_then() -> None:
    codecs, bias = [made() for _ in range(2)], torch.zeros(HEIGHT).double()
    for each in (
        torch.zeros(HEIGHT, WIDTH).double(),
        of_rank(1),
        torch.zeros(HEIGHT, WIDTH).double(),
        of_rank(2),
    ):
        found = step(codecs, [[each.reshape(-1), bias]] * 2)[0][0]
        assert torch.allclose(found, 2 * each.reshape(-1), rtol=0, atol=1e-9)


def test_what_nobody_has_a_gradient_of_keeps_what_it_lost() -> None:
    codecs = [made() for _ in range(2)]
    step(codecs, [given(1), given(2)])
    before = [codec.state()["rest"][: SIZES[0]] for codec in codecs]
    assert all(rest.any() for rest in before)
    zeros = [torch.zeros(size).double() for size in SIZES]
    step(codecs, [[zeros[0], given(3)[1]], zeros], there=(False, True))
    for codec, rest in zip(codecs, before, strict=True):
        assert torch.equal(codec.state()["rest"][: SIZES[0]], rest)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, 3e38])
def test_what_cannot_be_said_names_its_layer_and_changes_nothing(wrong: float) -> None:
    """One worker's own, or what it makes together with the others'."""
    codecs = [made(dtype=torch.float32) for _ in range(2)]
    step(codecs, [given(1, torch.float32), given(2, torch.float32)])
    before = [codec.state() for codec in codecs]
    bad = [torch.full((size,), wrong) for size in SIZES]
    said = "conv1 sends holds a value that is not finite, or too large"
    with pytest.raises(TrainingError, match=said):
        codecs[0].begin(bad)
    first = codecs[1].begin(given(3, torch.float32))
    with pytest.raises(TrainingError, match=said):
        codecs[1].go_on(torch.full_like(first, math.inf))
    codecs[1].go_on(first)
    with pytest.raises(TrainingError, match=said):
        codecs[1].end([first, torch.full((2 * WIDTH,), math.nan)], given(3, torch.float32), (True, True))
    for codec, state in zip(codecs, before, strict=True):
        assert set(codec.state()) == set(state) == {"rest", "basis 0"}
        assert all(torch.equal(tensor, state[name]) for name, tensor in codec.state().items())


def test_its_state_can_be_saved_and_loaded() -> None:
    codecs = [made() for _ in range(2)]
    for number in range(3):
        step(codecs, [given(number), given(100 + number)])
    resumed = [made() for _ in range(2)]
    saved = [codec.state() for codec in codecs]
    for codec, state in zip(resumed, saved, strict=True):
        codec.load(state)
    for number in range(3, 6):
        gradients = [given(number), given(100 + number)]
        for found, again in zip(step(codecs, gradients), step(resumed, gradients), strict=True):
            assert all(torch.equal(a, b) for a, b in zip(found, again, strict=True))
    assert not torch.equal(saved[0]["rest"], codecs[0].state()["rest"]), "what was saved is a copy"
    others: Any = {"rest": saved[0]["rest"], "basis 0": torch.ones(WIDTH, 4).double()}
    with pytest.raises(ValueError, match="does not belong to conv1: 40 x 2"):
        made().load(others)
