"""Exact class: every read of a parameter sees what plain PyTorch would, whenever and however it comes."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.plan.job import JobSpec
from engine.plan.serde import from_plain, to_plain
from tests.arrays import covering_rows
from tests.equivalence.against_plain import expected, holds, spec_of
from tests.equivalence.user_code.reads import KEPT, UNASKED
from tests.jobs import describe, distance, reference, run, succeed

READ = ("p3", "parameter-server-deferred", "ring-allreduce-overlap", "late-multiply", "p3+late-multiply")
WORKERS = (1, 2, 3)
WHEN = ("built", "late")

pytestmark = pytest.mark.usefixtures("gang_lane")


@pytest.mark.parametrize(
    ("strategy", "workers"),
    [
        ("single", 1),
        ("p3", 1),
        ("p3", 2),
        ("parameter-server", 3),
        ("parameter-server-deferred", 2),
        ("ring-allreduce-overlap", 2),
        ("native-allreduce", 2),
    ],
)
def test_a_read_that_sets_in_late_waits_for_its_version(strategy: str, workers: int, tmp_path: Path) -> None:
    """In whatever way it reads."""
    holds("reads:early", strategy, workers, tmp_path)


@pytest.mark.parametrize(
    ("strategy", "workers", "how"),
    [
        pytest.param(*here, how, marks=[] if place in (0, 1 + turn % 8) else [pytest.mark.soak])
        for turn, how in enumerate(UNASKED)
        for place, here in enumerate([("p3", 2), ("ring-allreduce-overlap", 2), ("single", 1)])
    ],
)
def test_what_asks_no_tensor_waits_for_the_version(
    strategy: str, workers: int, how: str, tmp_path: Path
) -> None:
    """Constructors, and TorchScript: where a server updates, and some where workers do, together or alone."""
    holds("reads:unasked", strategy, workers, tmp_path, how=how)


@pytest.mark.parametrize(
    ("strategy", "workers", "how", "when"),
    [
        ("p3", 1, "pointer", "built"),
        ("p3", 3, "storage", "late"),
        ("ring-allreduce-overlap", 3, "pointer of an array", "built"),
        ("late-multiply", 2, "pointer of a storage", "late"),
        ("late-multiply", 1, "typed storage", "built"),
        ("async-sgd", 1, "pointer of a view", "late"),
        *(
            pytest.param(*row, marks=pytest.mark.soak)
            for row in covering_rows(READ, WORKERS, list(KEPT), WHEN)
        ),
    ],
)
def test_memory_that_was_kept_without_being_counted_is_waited_for(
    strategy: str, workers: int, how: str, when: str, tmp_path: Path
) -> None:
    found = succeed(spec_of("reads:kept", strategy, workers, how=how, when=when), tmp_path)
    assert distance(found.state, expected("reads:kept", workers, how=how, when=when)) <= 1e-11
    assert (
        "last is waited for before every forward pass, because its memory has been given away" in found.logs()
    )


def test_the_plan_says_so_where_it_is_kept_when_the_model_is_built() -> None:
    described = describe(spec_of("reads:kept", "p3", 2, how="pointer", when="built"))
    waits = {layer.name: layer.waits for layer in described.layers}
    assert (waits["last"] or "").startswith("before forward, because its memory has been given away")
    assert not waits["first"]


@pytest.mark.parametrize(
    ("strategy", "how"),
    [
        ("p3", "encoder"),
        ("late-multiply", "layers"),
        ("p3", "layer"),
        ("ddp", "layer"),
        ("p3", "called"),
        ("late-multiply", "called"),
        ("ddp", "copied"),
        ("p3", "recomputed"),
        pytest.param("p3", "compiled", marks=pytest.mark.soak),  # other compiled code of p3: test_compiled.py
        ("ddp", "compiled"),
        ("p3", "hooked"),
        ("ddp", "hooked"),
        ("parameter-server", "traced"),
    ],
)
def test_a_transformer_goes_the_way_that_it_goes_in_plain_pytorch(
    strategy: str, how: str, tmp_path: Path
) -> None:
    holds("reads:teacher", strategy, 2, tmp_path, how=how)


@pytest.mark.parametrize("strategy", ["p3", "ring-allreduce-overlap", "ddp"])
def test_a_penalty_that_sets_in_late_before_the_model_is_called(strategy: str, tmp_path: Path) -> None:
    holds("penalty:model", strategy, 2, tmp_path)


@pytest.mark.parametrize("strategy", ["p3", "ring-allreduce-overlap"])
def test_what_shares_memory_with_a_parameter_is_waited_for(strategy: str, tmp_path: Path) -> None:
    holds("reads:aliased", strategy, 2, tmp_path)


@pytest.mark.parametrize(
    ("strategy", "how", "when"),
    [
        ("p3", "module_hook", 3),
        ("p3", "detached", 11),
        ("p3", "all", 3),
        ("ring-allreduce-overlap", "all", 0),
        ("parameter-averaging", "module_hook", 0),
    ],
)
def test_what_backward_reads_is_what_forward_saw(strategy: str, how: str, when: int, tmp_path: Path) -> None:
    """Also where the weight has left and its new value has come; and where a layer is updated as soon as its gradients
    are final, if nobody has read in backward."""
    holds("reads:in_backward", strategy, 2, tmp_path, how=how, when=when)


def test_who_reads_in_backward_is_seen_before_an_average_that_is_due_late(tmp_path: Path) -> None:
    """Passes after which nothing leaves show nothing."""
    plain = to_plain(spec_of("reads:in_backward", "parameter-averaging", 2, how="module_hook"))
    plain["strategy"]["options"] = {"period": 12}
    succeed(from_plain(JobSpec, plain), tmp_path)


@pytest.mark.parametrize("strategy", ["p3", "parameter-server-deferred"])
def test_what_backward_reads_late_is_what_forward_saw_or_refused(strategy: str, tmp_path: Path) -> None:
    """A server's answer may have been received in place before anybody read the parameter in backward."""
    found = run(spec_of("reads:in_backward", strategy, 2, how="hook", when=11), tmp_path)
    if found.end.status == "succeeded":
        assert distance(found.state, expected("reads:in_backward", 2, how="hook", when=11)) <= 1e-11
    else:
        assert strategy == "p3", found.end.reason
        assert "last.weight was read in backward" in found.end.reason
        assert "ring-allreduce" in found.end.reason


def test_a_gradient_that_has_left_cannot_be_read_in_backward(tmp_path: Path) -> None:
    end = run(spec_of("reads:in_backward", "p3", 2, how="gradient"), tmp_path).end
    assert end.status == "failed"
    assert "gradient of last.weight was read" in end.reason


def test_a_gradient_that_stays_may_be_read_in_backward(tmp_path: Path) -> None:
    holds("reads:in_backward", "single", 1, tmp_path, how="gradient")


@pytest.mark.parametrize("clip_norm", [None, 0.5])
def test_so_may_that_of_one_layer_beside_others_whose_gradients_leave(
    clip_norm: float | None, tmp_path: Path
) -> None:
    plain = to_plain(spec_of("reads:in_backward", "parameter-server", 1, how="gradient"))
    plain["strategy"]["options"] = {"update": "worker"}
    plain["training"]["clip_norm"] = clip_norm
    alone = from_plain(JobSpec, plain | {"strategy": {"name": "single"}})
    mixed = from_plain(JobSpec, plain | {"overrides": [{"layers": "last", "exchange": "none"}]})
    run = succeed(mixed, tmp_path)
    assert {layer.layer: layer.exchange for layer in run.launch.plan.layers}["last"] == "none"
    assert len({layer.exchange for layer in run.launch.plan.layers}) == 2
    assert distance(run.state, reference(alone, 1)) <= 1e-11
