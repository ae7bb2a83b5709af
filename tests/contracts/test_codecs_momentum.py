"""What a codec must hold that has the momentum of a worker's own gradients: when it is SGD, and what waits."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.errors import TrainingError, UserError
from engine.plan.encoding import encoding
from engine.tensor_bytes import as_bytes, joined, kept
from tests.contracts.test_codecs_sparse import by_sorting, encode, normal, opened_for, travel

COUNT = 600
ALL: dict[str, Any] = {"ratio": 1.0, "dtype": torch.float64}


def steps_of(number: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    return [normal(COUNT, seed=step, dtype=torch.float32).to(dtype) for step in range(number)]


def by_torch(gradients: list[Tensor], **options: Any) -> list[Tensor]:
    """What torch's SGD with a learning rate of 1 moves a parameter by in each step."""
    parameter = torch.nn.Parameter(torch.zeros(COUNT, dtype=torch.float64))
    optimizer, moves = torch.optim.SGD([parameter], lr=1.0, **options), []
    for gradient in gradients:
        before = parameter.detach().clone()
        parameter.grad = gradient.clone()
        optimizer.step()
        moves.append(before - parameter.detach())
    return moves


def close(found: list[Tensor], expected: list[Tensor]) -> bool:
    """Values travel in float32."""
    return all(torch.allclose(a, b, rtol=1e-5, atol=1e-5) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("nesterov", [False, True])
def test_where_all_is_sent_and_nothing_masked_it_is_sgd_with_momentum(nesterov: bool) -> None:
    codec, gradients = opened_for("dgc", COUNT, masking=False, nesterov=nesterov, **ALL), steps_of(10)
    found = [travel(codec, gradient) for gradient in gradients]
    assert close(found, by_torch(gradients, momentum=0.9, nesterov=nesterov))


def test_where_all_is_sent_and_masked_it_is_plain_sgd() -> None:
    codec, gradients = opened_for("dgc", COUNT, **ALL), steps_of(5)
    assert close([travel(codec, gradient) for gradient in gradients], gradients)


def by_the_rule(
    gradients: list[Tensor], ratio: float, masking: bool, nesterov: bool
) -> tuple[list[Tensor], Tensor]:
    """As the paper's algorithm has it: (what each step sends, the sum of all velocities)."""
    velocity = waiting = sum_of_all = torch.zeros(COUNT, dtype=torch.float64)
    sent: list[Tensor] = []
    for gradient in gradients:
        velocity = 0.9 * (velocity + gradient) if nesterov else 0.9 * velocity + gradient
        moved = velocity + gradient if nesterov else velocity
        sum_of_all, waiting = sum_of_all + moved, waiting + moved
        sent.append(by_sorting(waiting, round(ratio * COUNT)))
        waiting = waiting - sent[-1]
        if masking:
            velocity = velocity.masked_fill(sent[-1] != 0, 0)
    return sent, sum_of_all


@pytest.mark.parametrize("masking", [False, True])
@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("bits", [16, 32])
def test_what_was_sent_and_what_waits_is_the_sum_of_all_velocities(
    masking: bool, nesterov: bool, bits: int
) -> None:
    options = {"ratio": 0.05, "masking": masking, "nesterov": nesterov, "value_bits": bits}
    codec, gradients = opened_for("dgc", COUNT, dtype=torch.float64, **options), steps_of(40)
    found = [travel(codec, gradient) for gradient in gradients]
    expected, total = by_the_rule(gradients, 0.05, masking, nesterov)
    sent = torch.stack(found).sum(0)
    if bits == 32:
        assert close(found, expected)
        assert torch.allclose(sent + codec.state()["waiting"], total, rtol=0, atol=1e-4)
    assert int((found[-1] != 0).sum()) == 30


def test_half_precision_loses_nothing() -> None:
    """Without masking velocities do not depend on what was sent."""
    codec, gradients = opened_for("dgc", COUNT, ratio=0.05, masking=False, value_bits=16), steps_of(40)
    sent = torch.stack([travel(codec, gradient.float()) for gradient in gradients]).sum(0)
    assert torch.allclose(
        (sent + codec.state()["waiting"]).double(), by_the_rule(gradients, 0.05, False, False)[1], atol=1e-3
    )


@pytest.mark.parametrize("ratio", [0.001, 0.01])
def test_the_warm_up_sends_less_and_less(ratio: float) -> None:
    """Two messages a stage; then it is over."""
    count, options = 50_000, {"ratio": ratio, "warmup": 10}
    codec, way = opened_for("dgc", count, **options), encoding("dgc", options)
    lengths, found = [], []
    for step in range(12):
        payload = encode(codec, normal(count, seed=step))
        lengths.append(len(payload))
        found.append(int.from_bytes(payload[:4], "little"))
        assert way.extent("float32", count, kept(joined([payload, payload]))) == len(payload)
    stages = [round(count * ratio ** ((stage + 1) / 6)) for stage in range(6)]
    assert found == [stage for stage in stages for _ in range(2)]
    assert lengths[0] == way.bytes("float32", count) == max(lengths)
    assert not way.exact


def test_a_gradient_is_clipped_to_its_norm() -> None:
    codec = opened_for("dgc", COUNT, clip_norm=2.0, **ALL)
    given = normal(COUNT, dtype=torch.float64)
    assert math.isclose(float(travel(codec, 100 * given).norm()), 2, rel_tol=1e-5)
    assert torch.allclose(travel(codec, given / 1000), given / 1000, rtol=1e-5)
    assert not travel(opened_for("dgc", COUNT, clip_norm=2.0, **ALL), 0 * given).any()


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
@pytest.mark.parametrize("clip_norm", [None, 1.0])
def test_what_is_not_finite_is_said_and_changes_nothing(wrong: float, clip_norm: float | None) -> None:
    codec = opened_for("dgc", COUNT, ratio=0.01, clip_norm=clip_norm)
    travel(codec, normal(COUNT))
    before, given = codec.state(), normal(COUNT)
    given[7] = wrong
    with pytest.raises(TrainingError, match="fc6 sends holds a value that is not finite"):
        codec.encode([given], [0])
    assert all(torch.equal(held, codec.state()[name]) for name, held in before.items())


def test_what_is_kept_belongs_to_the_elements_that_were_sent() -> None:
    codec, options = opened_for("dgc", COUNT, ratio=0.01), {"ratio": 0.01}
    travel(codec, normal(COUNT))
    before = codec.state()
    payload = joined([as_bytes(part) for part in codec.encode([normal(200, seed=2)], [400])])
    assert len(payload) == encoding("dgc", options).bytes("float32", 200)
    for name in ("momentum", "waiting"):
        assert torch.equal(codec.state()[name][:400], before[name][:400])
        assert not torch.equal(codec.state()[name][400:], before[name][400:])
    assert len(joined([as_bytes(part) for part in codec.encode([], [])])) == 0


def test_its_state_can_be_saved_and_loaded() -> None:
    """In the middle of a warm-up; whoever goes on from it sends, bit by bit, what would have been sent."""
    options: dict[str, Any] = {"ratio": 0.01, "warmup": 6}
    codec, resumed = opened_for("dgc", COUNT, **options), opened_for("dgc", COUNT, **options)
    assert codec.state() == {}
    for step in range(3):
        travel(codec, normal(COUNT, seed=step))
    saved = codec.state()
    resumed.load(saved)
    for step in range(3, 8):
        assert bytes(encode(codec, normal(COUNT, seed=step))) == bytes(
            encode(resumed, normal(COUNT, seed=step))
        )
    assert not torch.equal(saved["waiting"], codec.state()["waiting"]), "what was saved is a copy"
    resumed.load({})
    assert resumed.state() == {}
    with pytest.raises(ValueError, match="does not belong to 3"):
        opened_for("dgc", 3).load(saved)
    with pytest.raises(ValueError, match="is not what is kept here"):
        opened_for("dgc", COUNT).load({"rest": saved["waiting"]})


def test_a_message_cut_short_is_refused() -> None:
    codec = opened_for("dgc", COUNT)
    payload = encode(codec, normal(COUNT))
    for wrong in (
        payload[:-1],
        payload[:0],
        payload[:4],
        memoryview(bytes(4)),
        kept(joined([payload, payload[:1]])),
    ):
        with pytest.raises(RuntimeError, match="bytes came for 600 elements"):
            codec.decode(wrong, [torch.empty(COUNT)])


@pytest.mark.parametrize(("options", "message"), [
    ({"momentum": 1.0}, "at least 0 and less than 1"),
    ({"clip_norm": 0.0}, "the largest norm of a gradient"),
    ({"warmup": -1}, "at least 0"),
    ({"ratio": 2.0}, "from 0.0001 to 1"),
])  # fmt: skip
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        encoding("dgc", options)
    assert caught.value.field == f"codec_options.{next(iter(options))}"
