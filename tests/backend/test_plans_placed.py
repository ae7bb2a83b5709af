"""What a plan may hold depends on the device that `auto` comes to on this machine."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from backend.scheduler import decide
from backend.services.describing import Allowance
from backend.services.inventory import Inventory
from backend.services.peaks import Peaks
from backend.services.plans import Planner
from backend.services.predicting import Predictor
from engine.errors import UserError
from tests.plans import described, job


def planner(gpus: int) -> Planner:
    devices = tuple(
        decide.Device(id=f"{kind}:{number}", kind=kind, name=kind)
        for kind, count in (("cpu", 2), ("cuda", gpus))
        for number in range(count)
    )
    nothing: Any = SimpleNamespace(read=nullcontext)
    nowhere: Any = SimpleNamespace(place=None, elsewhere=lambda *_: None)
    descriptions: Any = SimpleNamespace(describe=lambda *_: described("cnn"))
    inventory = Inventory(nothing, decide.Inventory(devices=devices), nowhere)
    return Planner(descriptions, inventory.check, nothing)


@pytest.mark.parametrize(("device", "gpus"), [("auto", 2), ("cuda", 2)])
def test_who_goes_on_without_its_own_writes_trains_on_the_cpu(device: str, gpus: int) -> None:
    spec = job("async-sgd", 2, {"own_writes": False}, cluster={"workers": 2, "device": device})
    with pytest.raises(UserError, match=r"own_writes.*on CUDA parameters are received into one pinned copy"):
        planner(gpus).plan(spec)


@pytest.mark.parametrize(("device", "gpus"), [("auto", 0), ("auto", 1), ("cpu", 2)])
def test_where_auto_comes_to_the_cpu_it_does(device: str, gpus: int) -> None:
    """Also where there are too few devices for all workers."""
    spec = job("async-sgd", 2, {"own_writes": False}, cluster={"workers": 2, "device": device})
    assert planner(gpus).plan(spec).spec == spec


@pytest.mark.parametrize("gpus", [0, 1])
def test_no_memory_is_predicted_where_auto_comes_to_cuda(gpus: int) -> None:
    """A GPU's kernels hold something else than the host's."""
    predictor = Predictor(Allowance(seconds=0.001, memory_bytes=0))
    with pytest.raises(UserError) as caught:
        Peaks(planner(gpus), predictor).predict(job("single", 1))
    predictor.close()
    assert (caught.value.field == "cluster.device") == (gpus > 0), caught.value.rule
