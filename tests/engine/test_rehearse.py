"""Rehearsals in real processes: compute is waited for, everything else is real."""

from __future__ import annotations

import time
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.instrumentation.uses import find_uses
from engine.launch import write_json
from engine.plan.description import LayerDescription, ModelDescription, ParameterDescription
from engine.plan.job import JobSpec, StrategySpec
from engine.plan.scaling import scaled_model
from engine.plan.serde import to_plain
from engine.profile import LayerTime, Profile, derive
from engine.replay.device import CURVATURE, Pace, ReplayModel
from engine.telemetry.events import Kind
from engine.telemetry.spool import batches
from engine.tensor_bytes import as_bytes
from tests.jobs import Run, describe, job, succeed
from tests.traffic import counted_by_our_transport, counted_bytes, declared_bytes

WORKERS = 2
STEPS = 6
SCALE = 3.0
FORWARD_S, BACKWARD_S, BEFORE_S, AFTER_S = 2e-4, 3e-4, 1e-4, 5e-5
STRATEGIES: dict[str, dict[str, Any]] = {
    "parameter-server": {"split_over": 3000},
    "p3": {"slice_size": 500},
    "p3+late-multiply": {"slice_size": 500, "layers": "all"},
    "ring-allreduce-overlap": {"bucket_bytes": 5000},
    "native-allreduce": {},
    "ddp": {"bucket_bytes": 5000},
    "fsdp": {"group_bytes": 500},
}
CUT = {"hybrid": {"where": "dedicated", "reducer": "ring", "cut": "2"}}
"""What no worker holds whole."""


def rehearsal(strategy: str, path: Path, workers: int = WORKERS, **changes: Any) -> JobSpec:
    """A job that replays a profile with the same time for every layer, which is written to `path`."""
    plain = {
        "strategy": {"name": strategy, "options": {**STRATEGIES, **CUT}.get(strategy, {})},
        "cluster": {"workers": workers},
        "training": {"steps": STEPS},
        "telemetry": {"detail": "all"},
        **changes,
    }
    spec = job(**plain)
    model = describe(spec)
    times = [LayerTime(layer=each.name, forward_s=FORWARD_S, backward_s=BACKWARD_S) for each in model.layers]
    profile = Profile(
        model=model.name,
        checksum=model.checksum,
        source="measured",
        device="nothing",
        batch=spec.pass_samples(workers),
        layers=tuple(times),
        before_s=BEFORE_S,
        after_s=AFTER_S,
    )
    write_json(path, to_plain(profile))
    return job(**plain, fidelity="rehearse", rehearsal={"scale": SCALE, "profile": str(path)})


def expected_checksum(spec: JobSpec, behind: frozenset[str] = frozenset(), replicas: int = WORKERS) -> int:
    """Of the parameters that plain SGD ends with on the same bowls: the workers' gradients summed, rank by
    rank; of layers by factors multiplied once, by what all workers have sent. Layers `behind` a cut are left
    out."""
    model = scaled_model(describe(spec), SCALE)
    late = spec.strategy.options.get("layers") == "all"
    layers = [layer for layer in model.layers if layer.name not in behind]
    held = [p for layer in layers for p in layer.parameters]
    values = [torch.nn.Parameter(torch.linspace(-1, 1, p.count)) for p in held]
    by_factors = [late and layer.factors is not None for layer in layers for _ in layer.parameters]
    optimizer = torch.optim.SGD(values, lr=spec.optimizer.learning_rate, **spec.optimizer.options)
    share = float(torch.tensor(1 / replicas))
    shares = [CURVATURE * (1 + rank / replicas) * share for rank in range(replicas)]
    for _ in range(spec.training.steps or 0):
        for value, together in zip(values, by_factors, strict=True):
            factors = [float(torch.tensor(shares).sum())] if together else shares
            value.grad = sum((value.detach() * share for share in factors), torch.zeros_like(value))
        optimizer.step()
    checksum = 0
    for _, value in sorted(zip([p.name for p in held], values, strict=True), key=lambda pair: pair[0]):
        checksum = zlib.crc32(as_bytes(value.detach()), checksum)
    return checksum


def computed_s(run: Run, rank: int) -> float:
    """Seconds of all steps of one worker in which it waited for nothing."""
    steps = np.concatenate([b.table("steps") for b in batches(run.launch.spool) if b.party == rank])
    return float((steps["end"] - steps["start"] - steps["exposed"]).sum()) / 1e9


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_learns_the_same_and_sends_what_it_declares(strategy: str, tmp_path: Path) -> None:
    spec = rehearsal(strategy, tmp_path / "profile.json")
    run = succeed(spec, tmp_path / "attempt")
    assert run.launch.devices == ("replay",) * WORKERS
    summaries = [run.summary(rank) for rank in range(WORKERS)]
    assert {s["parameters_crc32"] for s in summaries} == {expected_checksum(spec)}
    assert {s["rehearsed"] for s in summaries} == {spec.rehearsed}
    assert {(s["test_accuracy"], s["test_loss"]) for s in summaries} == {(None, None)}
    assert not (run.launch.result / "model.pt").exists(), "nothing was trained"
    if counted_by_our_transport(run):
        assert counted_bytes(run) == declared_bytes(run)
    samples = spec.training.global_batch // WORKERS * STEPS
    layers = len(run.launch.model.layers)
    least = samples * (layers * (FORWARD_S + BACKWARD_S) + BEFORE_S + AFTER_S)
    for rank in range(WORKERS):
        assert computed_s(run, rank) >= least, "a sleep never ends early"


@pytest.mark.usefixtures("gang_lane")
def test_a_cut_model_learns_the_same_in_front_and_sends_scaled_activations(tmp_path: Path) -> None:
    """A ring in front, and a device of its own, which computes for everybody."""
    spec = rehearsal("hybrid", tmp_path / "profile.json")
    run = succeed(spec, tmp_path / "attempt")
    behind = run.launch.model.layers_from("2")
    checksums = {run.summary(rank)["parameters_crc32"] for rank in range(WORKERS)}
    assert checksums == {expected_checksum(spec, behind)}
    counted = counted_bytes(run)
    assert counted == declared_bytes(run)
    elements = round(32 * 8 * 8 / SCALE)
    assert {counted[edge] for edge in counted if edge[2] == 1} == {13 * elements * 4 * STEPS}
    events = np.concatenate([b.table("events") for b in batches(run.launch.spool) if b.party == WORKERS])
    busy = events[events["kind"] == Kind.FORWARD]
    least = spec.training.global_batch * STEPS * len(behind) * FORWARD_S
    assert float((busy["end"] - busy["start"]).sum()) / 1e9 >= least, (
        "the device computes every worker's samples"
    )


@pytest.mark.usefixtures("gang_lane")
def test_stages_learn_the_same_and_send_scaled_activations(tmp_path: Path) -> None:
    """One replica in two stages, two micro-batches in flight."""
    spec = rehearsal(
        "model-parallel", tmp_path / "profile.json", training={"steps": STEPS, "micro_batches": 2}
    )
    run = succeed(spec, tmp_path / "attempt")
    model, cut = run.launch.model, "2"
    behind = model.layers_from(cut)
    first, second = (run.summary(rank)["parameters_crc32"] for rank in range(WORKERS))
    assert first == expected_checksum(spec, behind, replicas=1)
    assert second == expected_checksum(spec, frozenset(x.name for x in model.layers) - behind, replicas=1)
    counted = counted_bytes(run)
    assert counted == declared_bytes(run)
    size = 26 * round(32 * 8 * 8 / SCALE) * 4 * STEPS
    assert counted == {(0, 1, 1): size, (1, 0, 1): size}


@pytest.mark.usefixtures("gang_lane")
def test_three_workers_with_micro_batches_and_uneven_shares_agree(tmp_path: Path) -> None:
    training = {"steps": 4, "global_batch": 8, "micro_batches": 2}
    strategy = "p3+late-multiply"  # three samples, three, and two: rows in two passes
    spec = rehearsal(strategy, tmp_path / "profile.json", 3, training=training, network={"rate": "30Mbit"})
    run = succeed(spec, tmp_path / "attempt")
    assert len({run.summary(rank)["parameters_crc32"] for rank in range(3)}) == 1
    assert counted_bytes(run) == declared_bytes(run)
    links = [link for b in batches(run.launch.spool) for link in b.links]
    assert {link.rate_bps for link in links if link.rate_source == "shaped"} == {10_000_000}, "30 Mbit/s / 3"


@pytest.mark.usefixtures("gang_lane")
def test_workers_that_average_agree_at_the_end(tmp_path: Path) -> None:
    """After a period, and after the last step, which is no multiple of it."""
    strategy = StrategySpec(name="parameter-averaging", options={"period": 4, "optimizer_state": True})
    spec = replace(rehearsal("single", tmp_path / "profile.json"), strategy=strategy)
    run = succeed(spec, tmp_path / "attempt")
    assert len({run.summary(rank)["parameters_crc32"] for rank in range(WORKERS)}) == 1
    assert counted_bytes(run) == declared_bytes(run)


@pytest.mark.usefixtures("gang_lane")
def test_waits_are_per_layer_as_in_the_model_it_stands_for(tmp_path: Path) -> None:
    """Forward waits where a layer's module begins, not at the root: the first pass shows who uses what."""
    spec = rehearsal("p3", tmp_path / "profile.json", network={"rate": "3Mbit"})
    run = succeed(spec, tmp_path / "attempt")
    events = np.concatenate([b.table("events") for b in batches(run.launch.spool) if b.party == 0])
    forwards = events[(events["kind"] == Kind.FORWARD) & (events["step"] == STEPS - 1)]
    waits = events[(events["kind"] == Kind.WAIT) & (events["step"] == STEPS - 1)]
    assert len(waits) > 1
    first = forwards[forwards["layer"] == 0]["start"].min()
    assert (waits["start"] > first).any(), "some layer computes before another has arrived"


@pytest.mark.usefixtures("gang_lane")
def test_a_layer_is_updated_when_it_is_reached_as_a_gpu_hides_it(tmp_path: Path) -> None:
    """All updates together before the first layer would be time of the step, which a GPU's host has meanwhile."""
    run = succeed(rehearsal("single", tmp_path / "profile.json", workers=1), tmp_path / "attempt")
    events = np.concatenate([b.table("events") for b in batches(run.launch.spool)])
    own = events[events["step"] == STEPS - 2]  # after the last one all is settled
    layers = [layer.index for layer in run.launch.model.layers]
    updates, forwards = (own[own["kind"] == kind] for kind in (Kind.UPDATE, Kind.FORWARD))
    assert updates["layer"].tolist() == layers
    ends = {int(each["layer"]): int(each["end"]) for each in forwards}
    for before, update in zip(layers, updates[1:], strict=False):
        assert update["start"] >= ends[before]


def test_replayed_trees_keep_names_frozen_parameters_and_the_root() -> None:
    def layer(index: int, name: str, *parameters: ParameterDescription) -> LayerDescription:
        return LayerDescription(name=name, kind="any", index=index, parameters=parameters)

    token = ParameterDescription(name="index", shape=(2, 3), dtype="float32")
    frozen = ParameterDescription(name="a.b.weight", shape=(4,), dtype="float64", trainable=False)
    inner = ParameterDescription(name="a.bias", shape=(), dtype="bfloat16")
    model = ModelDescription(
        name="odd", layers=(layer(0, "a.b", frozen), layer(1, "", token), layer(2, "a", inner))
    )
    replayed = ReplayModel(model, derive(model, "h100", 1.0), Pace(), rank=1, workers=2)
    named = dict(replayed.named_parameters())
    assert {name: (tuple(p.shape), p.requires_grad) for name, p in named.items()} == {
        "index": ((2, 3), True),
        "a.b.weight": ((4,), False),
        "a.bias": ((), True),
    }
    assert find_uses(replayed, lambda: replayed(torch.zeros(5, 1))).order == ("index", "a.b.weight", "a.bias")
    (replayed(torch.zeros(5, 1)) * 5).backward()
    assert named["a.b.weight"].grad is None
    assert named["index"].grad is not None
    assert torch.equal(named["index"].grad, named["index"].detach() * (1.5 * CURVATURE * 5))


HOUR_NS = 3600 * 10**9


@pytest.mark.parametrize("host_ahead", [True, False], ids=["gpu", "processor"])
def test_what_the_host_does_between_layers_delays_only_a_processor(host_ahead: bool) -> None:
    """The device has ended the layer before an hour ago, as far as its clock knows."""
    waited_ns = 0
    pace = Pace(lambda: waited_ns, host_ahead=host_ahead)

    def layer() -> int:
        with pace.lasting(0):
            pass
        pace._ended_ns -= HOUR_NS
        return pace.behind_ns // HOUR_NS

    assert [layer() for _ in range(3)] == ([0, 1, 2] if host_ahead else [0, 0, 0])
    waited_ns = 1
    assert layer() == 0, "the device has waited, too"
    pace.behind_ns = HOUR_NS
    pace.begin()
    assert layer() == 0, "a pass begins, and owes nothing for the one before"


def test_who_has_waited_owes_nothing_for_being_late_before() -> None:
    waited_ns = 0
    pace = Pace(lambda: waited_ns)
    pace.behind_ns = 10_000_000
    waited_ns = 50_000_000
    start = time.monotonic()
    with pace.lasting(0.02):
        pass
    assert time.monotonic() - start >= 0.02
