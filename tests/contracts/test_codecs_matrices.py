"""What a codec must hold that factors matrices: the best of so few directions, warm start, whole rows, equal bits."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import _orthogonalize

from engine.axes.codec import CODEC
from engine.axes.matrices import HEAD, Rows, cut_rows, rows_of, runs_of
from engine.codec.base import Piece, UnitCodec
from engine.codec.opening import opened
from engine.codec.powersgd import PowerSgd
from engine.errors import TrainingError
from engine.plan.encoding import encoding
from tests.contracts.test_codecs_feedback import (
    assert_messages_come_whole,
    assert_written_in_place,
    decoded,
    encode,
    normal,
    travel,
)

HEIGHT, WIDTH = 60, 40
SHAPES = ((HEIGHT, 8, 5), (HEIGHT,))
"""A layer's: a convolution of 60 x 40, and its bias."""
LAYER = tuple(rows_of(shape, 0, math.prod(shape)) for shape in SHAPES)
COUNT = HEIGHT * WIDTH + HEIGHT


def made(
    rank: int = 2,
    rows: tuple[Rows, ...] = LAYER,
    *,
    dtype: torch.dtype = torch.float32,
    seed: int = 1,
    **how: Any,
) -> UnitCodec:
    piece = Piece(name="conv1", count=sum(r.count for r in rows), dtype=dtype, rows=rows, seed=seed)
    return opened(encoding("powersgd", {"rank": rank}), piece, remembers=how.get("remembers", False))


def of_rank(rank: int, dtype: torch.dtype = torch.float64, seed: int = 3) -> Tensor:
    """A matrix of the layer's size."""
    left, right = normal(HEIGHT * rank, seed, dtype), normal(WIDTH * rank, seed + 1, dtype)
    return left.view(HEIGHT, rank) @ right.view(rank, WIDTH)


def test_these_are_all_that_factor() -> None:
    assert [m.name for m in CODEC if m.available and "matrices" in m.traits] == ["powersgd"]


@pytest.mark.parametrize("rank", [1, 2, 4])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_a_matrix_of_so_few_directions_arrives_as_it_is(rank: int, dtype: torch.dtype) -> None:
    """And so does what has no rows."""
    given = [of_rank(rank, dtype).view(-1), normal(HEIGHT, dtype=dtype)]
    weight, bias = travel(made(rank, dtype=dtype), given)
    assert torch.equal(bias, given[1])
    far = (weight - given[0]).norm() / given[0].norm()
    assert far <= (1e-12 if dtype == torch.float64 else 1e-5)


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_it_weighs_its_factors(rank: int) -> None:
    size = len(encode(made(rank), [normal(COUNT)]))
    assert size == 4 * (rank * (HEIGHT + WIDTH) + HEIGHT) + 5 * HEAD
    assert size == encoding("powersgd", {"rank": rank}).bytes("float32", COUNT, LAYER)
    half = made(rank, dtype=torch.bfloat16)
    assert len(encode(half, [normal(COUNT, dtype=torch.bfloat16)])) == (size - 5 * HEAD) // 2 + 5 * HEAD


def test_what_would_not_become_half_as_long_travels_as_it_is() -> None:
    """10 x 10 of rank 2 is 40 numbers, of rank 3 it is 60."""
    rows = (rows_of((10, 10), 0, 100),)
    for rank, size in ((2, 4 * 40 + 3 * HEAD), (3, 400)):
        payload = encode(made(rank, rows), [normal(100)])
        assert len(payload) == size
    assert torch.equal(travel(made(3, rows), [normal(100)])[0], normal(100))


def test_messages_come_to_the_best_of_so_few_directions() -> None:
    """Of one and the same matrix: the factors of each message begin with those of the last one."""
    codec, given = (
        made(2, dtype=torch.float64),
        torch.cat([of_rank(6).view(-1), torch.zeros(HEIGHT)]).double(),
    )
    matrix = given[: HEIGHT * WIDTH].view(HEIGHT, WIDTH)
    values = torch.linalg.svdvals(matrix)
    best = float(values[2:].square().sum().sqrt())
    far = [float((travel(codec, [given])[0] - given).norm()) for _ in range(60)]
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(far))
    assert far[0] > 1.05 * best
    assert far[-1] == pytest.approx(best, rel=1e-6)


def test_it_computes_what_pytorchs_hook_does() -> None:
    """With one worker, for whom both rounds of that are its own: P and Q of 20 gradients, each with what was lost."""
    codec = made(2, dtype=torch.float64, remembers=True)
    given = [normal(HEIGHT * WIDTH, seed, torch.float64).view(HEIGHT, WIDTH) for seed in range(20)]
    inner = made(2, dtype=torch.float64)
    assert isinstance(inner, PowerSgd)
    basis, rest = inner._bases.of(0, WIDTH).clone(), torch.zeros(HEIGHT, WIDTH, dtype=torch.float64)
    for gradient in given:
        matrix = gradient + rest
        left = matrix @ basis
        _orthogonalize(left.unsqueeze(0))
        basis = matrix.t() @ left
        rest = matrix - left @ basis.t()
        weight, _ = travel(codec, [gradient.reshape(-1), torch.zeros(HEIGHT, dtype=torch.float64)])
        assert torch.allclose(weight.view(HEIGHT, WIDTH), left @ basis.t(), rtol=0, atol=1e-10)
        assert torch.allclose(codec.state()["rest"][: HEIGHT * WIDTH].view_as(rest), rest, rtol=0, atol=1e-10)


def test_nothing_and_one_direction_leave_room_for_what_comes_then() -> None:
    """Columns in which nothing was left begin anew: else they would be empty for good."""
    codec = made(2, dtype=torch.float64)
    bias = torch.zeros(HEIGHT, dtype=torch.float64)
    for given in (
        torch.zeros(HEIGHT, WIDTH).double(),
        of_rank(1),
        torch.zeros(HEIGHT, WIDTH).double(),
        of_rank(2),
    ):
        weight, _ = travel(codec, [given.reshape(-1), bias])
        assert torch.allclose(weight, given.reshape(-1), rtol=0, atol=1e-9)


@pytest.mark.parametrize("size", [1e-30, 1e-3, 1e30])
def test_sizes_do_not_matter(size: float) -> None:
    given = of_rank(2, torch.float32).view(-1) * size
    (weight, _) = travel(made(), [given, torch.zeros(HEIGHT)])
    assert torch.allclose(weight, given, rtol=0, atol=1e-5 * float(given.abs().max()))


def test_what_becomes_too_large_is_said_and_changes_nothing() -> None:
    codec = made(remembers=True)
    encode(codec, [normal(COUNT)])
    before = codec.state()
    for wrong in (torch.full((COUNT,), 3e38), torch.full((COUNT,), math.nan)):
        with pytest.raises(TrainingError, match="conv1 sends holds a value that is not finite, or too large"):
            codec.encode([wrong], [0])
    assert set(before) == set(codec.state()) == {"rest", "basis 0"}
    assert all(torch.equal(tensor, before[name]) for name, tensor in codec.state().items())


def test_a_slice_has_its_whole_rows_as_a_matrix() -> None:
    """What is left of other rows is beside it, as it is."""
    cut = [*cut_rows(LAYER, 15, 15 + 30 * WIDTH)]
    assert cut == [Rows(30 * WIDTH, WIDTH, 15)]
    runs = runs_of(cut, 2)
    assert [(run.count, run.height, run.width) for run in runs] == [
        (25, 0, 0),
        (29 * WIDTH, 29, WIDTH),
        (15, 0, 0),
    ]
    piece = rows_of(SHAPES[0], 15, 15 + 30 * WIDTH)
    assert piece == cut[0]
    given = of_rank(2, torch.float32).view(-1)[15 : 15 + 30 * WIDTH]
    (found,) = travel(made(rows=(piece,)), [given])
    assert torch.equal(found[:25], given[:25])
    assert torch.equal(found[-15:], given[-15:])
    assert torch.allclose(found, given, rtol=0, atol=1e-4)
    assert [*cut_rows(LAYER, HEIGHT * WIDTH - 5, COUNT + 7)] == [
        Rows(5, WIDTH, 35),
        Rows(HEIGHT, 0),
        Rows(7, 0),
    ]


def test_what_arrives_is_the_same_to_the_bit_with_any_number_of_threads() -> None:
    """Replicas that decode one message must stay equal."""
    rows = (rows_of((600, 700), 0, 420_000),)
    codec, given, before = made(4, rows), normal(420_000), torch.get_num_threads()
    payload, found = encode(codec, [given]), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found += decoded(codec, payload, [given])
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_its_state_can_be_saved_and_loaded() -> None:
    """Whoever goes on from it sends, bit by bit, what would have been sent."""
    codec, resumed = made(remembers=True), made(remembers=True)
    assert codec.state() == {}
    for step in range(3):
        encode(codec, [normal(COUNT, step)])
    saved = codec.state()
    resumed.load(saved)
    for step in range(3, 6):
        given = [normal(COUNT, step)]
        assert bytes(encode(codec, given)) == bytes(encode(resumed, given))
    assert not torch.equal(saved["basis 0"], codec.state()["basis 0"]), "what was saved is a copy"
    with pytest.raises(ValueError, match=r"does not belong to conv1: 40 x 4 torch.float32 there"):
        made(4).load({"basis 0": saved["basis 0"]})
    with pytest.raises(ValueError, match="remembers nothing but bases"):
        made().load({"momentum": saved["rest"]})


@pytest.mark.parametrize(
    ("name", "width", "dtype", "said"),
    [
        ("basis 0", WIDTH - 1, torch.float32, "40 x 2 torch.float32 there"),
        ("basis 0", WIDTH, torch.float64, "40 x 2 torch.float32 there"),
        ("basis 1", WIDTH, torch.float32, "no row begins there"),
        (f"basis {HEIGHT * WIDTH}", WIDTH, torch.float32, "no row begins there"),
        (f"basis {10 * COUNT}", WIDTH, torch.float32, "no row begins there"),
        ("basis of conv2", WIDTH, torch.float32, "no row begins there"),
    ],
)
def test_a_basis_of_another_matrix_is_refused(name: str, width: int, dtype: torch.dtype, said: str) -> None:
    """And nothing changes. One of a part in a ring begins at a later row."""
    codec = made()
    later = torch.ones(WIDTH, 2)
    codec.load({f"basis {WIDTH}": later})
    with pytest.raises(ValueError, match=rf"does not belong to conv1: .*{said}"):
        codec.load({name: torch.ones(width, 2, dtype=dtype)})
    assert [*codec.state()] == [f"basis {WIDTH}"]
    sliced = made(rows=(rows_of(SHAPES[0], 15, 15 + 30 * WIDTH),))
    sliced.load({"basis 25": later})
    assert torch.equal(sliced.state()["basis 25"], later)


def test_messages_are_refused_cut_short_and_may_begin_at_any_address() -> None:
    assert_messages_come_whole(made(), COUNT, "conv1", (3, 9))


def test_decoding_writes_only_its_parts_and_adds_in_their_type() -> None:
    assert_written_in_place(made(rows=(Rows(330, 15),)))
    codec, given = made(dtype=torch.float64), normal(COUNT, dtype=torch.float64)
    payload = encode(codec, [given])
    sums = torch.full((COUNT,), 1e3, dtype=torch.float64)
    codec.decode_add(payload, [sums])
    assert torch.equal(sums, decoded(codec, payload, [given])[0] + 1e3)
