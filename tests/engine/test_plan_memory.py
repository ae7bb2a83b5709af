"""What a plan has each process hold: declared, and counted in real workers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.benchmarks.harness.jobs import bench_job
from engine.benchmarks.memory import run
from engine.errors import UserError
from engine.plan.cluster import parties
from engine.plan.description import ModelDescription
from engine.plan.inputs import Input
from engine.plan.job import JobSpec
from engine.plan.memory import held
from engine.plan.peak import PARTS, Peak, WorkerMemory
from engine.plan.plan import Plan
from engine.plan.worker_memory import COPY, ENCODING, declared_memory, request_for, worker_memory
from engine.strategies import build_plan
from tests.plans import built, described, job, made_up, planned, trainable_bytes

WORKERS = 4
SGD = {"name": "sgd", "learning_rate": 0.1, "options": {"momentum": 0.9}}
JOB = job("single", WORKERS, optimizer=SGD)


def declared(strategy: str, model: str, **options: Any) -> tuple[Plan, list[dict[str, int]]]:
    """The plan, and what each of its parties holds."""
    plan = planned(strategy, model, WORKERS, **options)
    return plan, [held(plan, described(model), party, JOB) for party in parties(plan, WORKERS)]


def test_replicas_are_whole_and_shards_add_up() -> None:
    whole = trainable_bytes(described("vgg19"))
    _, found = declared("parameter-server", "vgg19")
    assert [one["parameters"] for one in found] == [whole] * WORKERS
    assert sum(one["server copies"] for one in found) == whole
    assert sum(one["optimizer state"] for one in found) == whole
    _, found = declared("ring-allreduce-overlap", "vgg19")
    assert found == [
        {
            "parameters": whole, "gradients": whole, "optimizer state": whole,
            "server copies": 0, "residuals": 0, "sums and other tensors": 0, "averages' copies": 0, "buckets": 0,
        }
    ] * WORKERS  # fmt: skip
    peer = built("ddp", "vgg19", WORKERS)
    assert held(peer, described("vgg19"), parties(peer, WORKERS)[1], JOB) == {**found[0], "buckets": whole}
    own = {
        name: declared(name, "vgg19", **options)[1][1]["averages' copies"]
        for name, options in (
            ("model-average", {"period": 2}),
            ("decentralized-async", {}),
            ("diloco", {}),
            ("streaming-diloco", {"fragments": 1, "delay": 1}),
        )
    }
    assert own == {
        "model-average": whole,
        "decentralized-async": 2 * whole,
        "diloco": 2 * whole,
        "streaming-diloco": 3 * whole,
    }, "the last average; what others have sent; the outer velocity; what is under way"


def highest(spec: JobSpec, model: ModelDescription, activations: int) -> WorkerMemory:
    """Of a worker whose step is highest when half of its gradients are there, with so many bytes of activations."""
    whole = trainable_bytes(model)
    parts = {
        **dict.fromkeys(PARTS, 0),
        "parameters": whole,
        "gradients": whole // 2,
        "activations": activations,
    }
    total = sum(parts.values())
    peak = Peak(total=total, parts=parts, saved={}, when="backward", layer="l1", first=total)
    return worker_memory(spec, build_plan(spec, model), model, peak)


def test_hooks_of_ddp_hold_copies_while_buckets_are_summed() -> None:
    """In 16 bits, of those that have left; or of one bucket twice, beside what is lost of all and their factors."""
    model = made_up((60_000,), (60_000,))
    whole, bucket = 4 * 120_000, {"bucket_bytes": 4 * 60_000}

    def beside(hook: str, activations: int, **more: Any) -> int:
        found = highest(job("ddp", 2, {"hook": hook, **bucket, **more}), model, activations)
        return found.beside - whole

    assert [beside("none", each) for each in (0, 2 * whole)] == [0, 0]
    assert [beside("fp16", each) for each in (0, 2 * whole)] == [whole // 2, whole // 4]
    assert [beside("powersgd", each) for each in (0, 2 * whole)] == [2 * whole, 2 * whole]
    large = trainable_bytes(described("vgg19"))
    spec = job("ddp", 2, {"hook": "powersgd"})
    plan = build_plan(spec, described("vgg19"))
    kept = held(plan, described("vgg19"), parties(plan, 2)[0], spec)["residuals"]
    assert large < kept < 1.001 * large, "factors of matrices"


def test_codecs_at_work_are_in_backward_where_gradients_leave_then() -> None:
    model = made_up((60_000,), (60_000,))
    whole, part = 4 * 120_000, 4 * 60_000

    def encoding(strategy: str, activations: int, **options: Any) -> int:
        found = highest(job(strategy, 2, options), model, activations)
        assert found.beside == sum(found.declared.values()) - 2 * whole - found.declared["optimizer state"]
        return found.declared.get(ENCODING, 0)

    half, server = 3 * whole // 2, {"codec": "int8", "where": "dedicated"}
    assert encoding("ring-allreduce-overlap", 2 * whole, codec="int8") == half, (
        "half of a bucket is a message"
    )
    assert encoding("ring-allreduce", 2 * whole, codec="int8") == 0
    assert encoding("ring-allreduce", 0, codec="int8") == half
    assert encoding("parameter-server", 2 * whole, **server) == 3 * part
    assert encoding("parameter-server", 2 * whole, where="dedicated") == 0


def test_of_a_cut_model_each_process_holds_its_part() -> None:
    model = described("alexnet")
    front = sum(layer.parameter_bytes for layer in model.layers if layer.kind == "Conv2d")
    back = model.parameter_bytes - front
    _, found = declared("hybrid", "alexnet", cut="fc6")
    assert [one["parameters"] for one in found] == [front, front, front, front + back], (
        "beside the last worker"
    )
    assert [one["optimizer state"] for one in found] == [front, 0, 0, back], "a reducer beside the first"
    _, found = declared("hybrid", "alexnet", cut="fc6", where="dedicated", reducer="dedicated")
    assert [one["parameters"] for one in found] == [front] * WORKERS + [0, back]
    assert [one["gradients"] for one in found] == [front] * WORKERS + [0, back]
    assert [one["server copies"] for one in found] == [0] * WORKERS + [front, 0]


def test_stages_share_the_model_out() -> None:
    model = described("resnet50")
    plan, found = declared("model-parallel", "resnet50", stages=2)
    assert found[0] == found[2]
    assert found[1] == found[3]
    assert found[0]["parameters"] + found[1]["parameters"] == model.parameter_bytes
    first = {layer.layer for layer in plan.layers if layer.place == 0}
    assert found[0]["parameters"] == sum(x.parameter_bytes for x in model.layers if x.name in first)


def test_who_encodes_keeps_what_that_loses() -> None:
    """A worker of all that it sends; a shard of sums that it answers with, or what workers hold of its parameters."""
    whole = trainable_bytes(described("vgg19"))

    def residuals(strategy: str, **options: Any) -> list[int]:
        return [one["residuals"] for one in declared(strategy, "vgg19", **options)[1]]

    assert residuals("ring-allreduce-overlap", codec="int8") == [whole] * WORKERS
    assert residuals("ring-allreduce-overlap", codec="fp16") == [0] * WORKERS
    assert (
        residuals("parameter-server", codec="dgc", where="dedicated") == [2 * whole] * WORKERS + [0] * WORKERS
    )
    summed = residuals("parameter-server", codec="int8", update="worker", where="dedicated")
    assert summed[:WORKERS] == [whole] * WORKERS
    assert sum(summed[WORKERS:]) == whole
    moved = residuals("parameter-server", codec="fp16", answers="fp16", where="dedicated")
    assert moved[:WORKERS] == [0] * WORKERS
    assert sum(moved[WORKERS:]) == whole
    drifting = residuals("async-sgd", answers="fp16", where="dedicated")
    assert sum(drifting[WORKERS:]) == WORKERS * whole, "each worker holds something else"
    convolutions = sum(x.parameter_bytes for x in described("vgg19").layers if x.kind == "Conv2d")
    factored = residuals("late-multiply", codec="int8", layers="all")
    votes = {"codec": "signsgd", "where": "dedicated"}
    momenta = residuals("parameter-server", codec_options={"momentum": 0.9}, **votes)
    assert momenta == [whole] * WORKERS + [0] * WORKERS, "and majorities none"
    assert residuals("parameter-server", **votes) == [0] * 2 * WORKERS
    factors = residuals("parameter-server", codec="powersgd", where="dedicated")
    assert whole < factors[0] < 1.01 * whole, "and what the next message begins with"
    in_phases = residuals("parameter-server", codec="powersgd", update="worker", where="dedicated")
    assert in_phases == factors[:WORKERS] + [0] * WORKERS, "sums on their way back lose nothing"
    buckets = residuals("ring-allreduce-overlap", codec="powersgd")
    assert factors[0] < buckets[0] < 1.05 * whole, (
        "each part of a matrix that buckets cut has a basis of its own"
    )
    assert factored == [convolutions] * WORKERS, "factors leave nothing behind"


def served(**changes: Any) -> list[int]:
    """Optimizer state of each party, where servers of their own update slices of made-up layers, groups apart."""
    model = made_up((60_000, 40), (200_000,))
    spec = job("p3", 2, {"where": "dedicated"}, **changes)
    plan = build_plan(spec, model)
    assert isinstance(plan, Plan)
    return [held(plan, model, party, spec)["optimizer state"] for party in parties(plan, 2)]


def test_servers_hold_what_the_optimizer_keeps() -> None:
    """Of each slice, which is a parameter to them; one number of four bytes beside what has as many as the slice."""
    elements, slices = 260_040, 2 + 1 + 4
    assert served() == [0, 0, 0, 0], "sgd keeps nothing without momentum"
    assert sum(served(optimizer=SGD)) == 4 * elements
    adam = served(optimizer={"name": "adam", "learning_rate": 0.1})
    assert adam[:2] == [0, 0]
    assert sum(adam) == 2 * 4 * elements + 4 * slices
    apart = {**SGD, "groups": [{"match": "l1.*", "options": {"momentum": 0}}]}
    assert sum(served(optimizer=apart)) == 4 * 60_040
    one_cycle = {"name": "one-cycle", "options": {"max_lr": 0.1}}
    assert sum(served(schedule=one_cycle)) == 4 * elements, "the schedule moves the momentum"
    still = {"name": "one-cycle", "options": {"max_lr": 0.1, "cycle_momentum": False}}
    assert sum(served(schedule=still)) == 0


def test_a_checkpoint_is_a_copy_of_what_is_in_memory() -> None:
    """Of the state of an offloaded optimizer none; where workers drift, also of what the server beside them has."""
    model = made_up((60_000, 40), (200_000,))
    adam = {"name": "adam", "learning_rate": 0.1}

    def copy(strategy: str, **changes: Any) -> int:
        spec = job(strategy, 2, checkpoint={"every_steps": 5}, **changes)
        plan = build_plan(spec, model)
        assert isinstance(plan, Plan)
        declared, beside = declared_memory(spec, plan, model)
        assert beside >= declared[COPY]
        return declared[COPY]

    size = 4 * 260_040
    assert copy("ring-allreduce-overlap") == size
    assert copy("ring-allreduce-overlap", optimizer=adam) == 3 * size + 4 * 3
    assert copy("ring-allreduce-overlap", optimizer={**adam, "offload": True}) == size + 2 * 4 * 40 + 4 * 3
    own = copy("async-sgd")
    assert size < own < 2 * size, "and the half that the server beside worker 0 has"
    spec = job("ring-allreduce-overlap", 2)
    plan = build_plan(spec, model)
    assert isinstance(plan, Plan)
    assert COPY not in declared_memory(spec, plan, model)[0]


@pytest.mark.parametrize(
    ("prefetch", "micro_batches", "batches"), [(0, 1, 1), (0, 3, 3), (2, 1, 4), (2, 3, 12)]
)
def test_batches_that_are_there_at_a_time_are_asked_for(
    prefetch: int, micro_batches: int, batches: int
) -> None:
    """Those that are read ahead, one that waits until there is room, the one in use, all of its micro-batches."""
    model = made_up((10,), (20,))
    training = {"steps": 10, "global_batch": 64, "micro_batches": micro_batches}
    spec = job("p3", 2, training=training)
    plan = build_plan(spec, model)
    assert isinstance(plan, Plan)
    planned = replace(plan, input=Input(prefetch=prefetch))
    assert request_for(spec, planned, model)["batches"] == batches


def test_a_prediction_is_of_the_host_with_the_jobs_threads() -> None:
    spec = job("p3", 2, {})
    plan, model = build_plan(spec, made_up((10,), (20,))), made_up((10,), (20,))
    three = replace(spec, cluster=replace(spec.cluster, device="cpu", threads=3))
    assert request_for(three, plan, model)["threads"] == 3
    on_gpus = replace(spec, cluster=replace(spec.cluster, device="cuda"))
    with pytest.raises(
        UserError, match="what a GPU's kernels hold while they run is not predicted"
    ) as caught:
        request_for(on_gpus, plan, model)
    assert caught.value.field == "cluster.device"


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("strategy", ["hybrid", "model-parallel"])
def test_real_workers_hold_what_is_declared(strategy: str) -> None:
    """While they train. Nobody keeps the parts that are somebody else's, worker 0 neither, which gave their values."""
    found = run(bench_job("mlp", strategy, workers=2, batch=4, steps=3))
    assert len({plan["parameters"] for _, plan in found}) == 2
    for measured, plan in found:
        for part in ("parameters", "optimizer state"):
            assert measured[part] == plan[part], part


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("parameter-server", {"codec": "int8", "answers": "fp16"}),
        ("parameter-server", {"codec": "int8", "update": "worker"}),
        ("p3", {"answers": "top-k"}),
        ("async-sgd", {"answers": "int8"}),
        ("ring-allreduce-overlap", {"codec": "one-bit"}),
        pytest.param("parameter-server", {"codec": "powersgd", "update": "worker"}, marks=pytest.mark.soak),
    ],
)
def test_real_codecs_keep_what_is_declared(strategy: str, options: dict[str, Any]) -> None:
    found = run(bench_job("mlp", strategy, workers=2, batch=4, steps=3, options=options))
    assert all(plan["residuals"] for _, plan in found)
    assert [measured["residuals"] for measured, _ in found] == [plan["residuals"] for _, plan in found]
