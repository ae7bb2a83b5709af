"""The largest batch under a budget's own mixture, and what smaller batches of a way hold and take."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn

from engine.errors import UserError
from engine.liveness.fitting import Fitter, Wanted
from engine.liveness.largest import Room, curve, find, find_mixture
from engine.liveness.peak import peak_of
from engine.liveness.training import Training
from engine.plan.largest import looked_at
from engine.plan.peak import Peak
from engine.plan.updates import OptimizerSpec
from tests.engine.test_liveness_peak import asked
from tests.memory import training

SGD = OptimizerSpec(name="sgd", learning_rate=0.1, options={"momentum": 0.9})
ROOM = 8 * 2**20


def uneven() -> nn.Module:
    """Blocks that save much and little, of which some are cheap to compute again: one way for all of them is not the
    best."""
    sizes = [64, 512, 128, 1024, 64, 768, 256]
    blocks = [nn.Sequential(nn.Linear(*pair), nn.Tanh(), nn.Sigmoid()) for pair in pairwise(sizes)]
    return nn.Sequential(nn.Flatten(), *blocks, nn.Linear(256, 10))


def of(samples: int) -> Training:
    with torch.device("meta"):
        return training(uneven(), torch.zeros(samples, 1, 8, 8), torch.zeros(samples, dtype=torch.int64))


def look(whole: Training, choices: Any) -> Peak:
    return peak_of(whole, SGD, choices)


def wanted(beside: int = 0) -> Wanted:
    free = tuple(layer.name for layer in of(1).described.layers)
    return Wanted(beside=beside, free=free, threads=1, accumulated=False)


@pytest.fixture(scope="module")
def uniform() -> dict[str, int]:
    """The largest batch of each way that is one for all layers."""
    room = Room(room=ROOM, most=2**20)
    model = uneven()
    return {
        way: find(of, asked(model, way), look, room, wanted()).samples
        for way in ("keep", "swap", "recompute")
    }


def test_a_mixture_has_no_smaller_batch_than_any_one_way(uniform: dict[str, int]) -> None:
    best = max(uniform.values())
    beside = 1000
    found = find_mixture(of, look, Room(room=ROOM, most=2**20, first=best), wanted(beside))
    assert found.samples >= best > uniform["keep"]
    assert found.peak <= ROOM
    assert found.over is not None
    assert found.over > ROOM
    assert found.slow_down is not None
    assert found.slow_down > 0
    assert {layer.layer for layer in found.layers} == set(wanted().free)
    at = of(2 * found.samples)
    larger = Fitter(at, {}, partial(look, at), wanted())
    with pytest.raises(UserError, match=r"memory\.budget"):
        larger.fit(ROOM)


def test_a_mixture_is_what_a_budget_chooses_for_its_batch(uniform: dict[str, int]) -> None:
    found = find_mixture(of, look, Room(room=ROOM, most=2**20, first=max(uniform.values())), wanted())
    whole = of(found.samples)
    fitted = Fitter(whole, {}, partial(look, whole), wanted()).fit(found.peak)
    assert fitted.peak <= found.peak


def test_where_everything_fits_it_is_kept() -> None:
    found = find_mixture(of, look, Room(room=2**40, most=32), wanted())
    assert (found.samples, found.over, found.slow_down) == (32, None, 0)
    assert {layer.activations for layer in found.layers} == {"keep"}


def test_where_not_one_sample_fits_none_does() -> None:
    found = find_mixture(of, look, Room(room=2**16, most=32), wanted())
    assert (found.samples, found.layers) == (0, ())
    assert found.peak > 2**16


def test_a_curve_has_what_smaller_batches_hold_and_take(uniform: dict[str, int]) -> None:
    samples = looked_at(uniform["recompute"])
    assert samples == sorted(samples)
    assert samples[-1] == uniform["recompute"]
    again = asked(uneven(), "recompute")
    room = Room(room=ROOM, most=2**20)
    found = curve(of, again, look, samples, room, wanted())
    assert [point.samples for point in found] == samples
    assert [point.peak for point in found] == sorted(point.peak for point in found)
    assert found[-1].peak <= ROOM
    kept = curve(of, {}, look, samples, room, wanted())
    for one, other in zip(found, kept, strict=True):
        assert one.pass_ns is not None
        assert other.pass_ns is not None
        assert one.pass_ns > other.pass_ns
    assert found[-1].peak < kept[-1].peak
    assert looked_at(2) == [1, 2]
