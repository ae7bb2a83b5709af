"""Declared bytes: the papers' figures, the formulas of the exchanges, and nothing lost between units and layers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from engine.plan.description import Factors
from engine.plan.encoding import encoding
from engine.plan.plan import LayerPlan, Order, Wrapper
from engine.plan.rounds import chunk
from engine.simulate.declared import declared, wire_bytes, wire_bytes_by_layer
from engine.strategies import build_plan
from tests.plans import (
    PLANNED,
    SERVED,
    built,
    described,
    job,
    made_up,
    planned,
    resolved,
    ring,
    trainable_bytes,
)

MIB = 2**20


def ports(strategy: str, name: str, workers: int, **options: object) -> tuple[Counter[int], Counter[int]]:
    """Bytes that each party sends and receives over the network in one step."""
    sent: Counter[int] = Counter()
    received: Counter[int] = Counter()
    for transfer in declared(planned(strategy, name, workers, **options), described(name), workers):
        if transfer.wire:
            sent[transfer.source] += transfer.bytes
            received[transfer.destination] += transfer.bytes
    return sent, received


@pytest.mark.parametrize(("workers", "mib"), [(2, 930.3), (4, 1860.5), (8, 3721.0)])
def test_alexnet_under_central_reduce_moves_what_table_2_says(workers: int, mib: float) -> None:
    model = described("alexnet")
    plan = planned("central-reduce", model, workers, where="dedicated")
    assert wire_bytes(plan, model, workers) == 2 * workers * model.parameter_bytes
    assert round(wire_bytes(plan, model, workers) / MIB, 1) == mib


@pytest.mark.parametrize(("workers", "mib"), [(2, 465.1), (4, 1395.4)])
def test_a_reducer_beside_a_worker_saves_that_workers_share(workers: int, mib: float) -> None:
    model = described("alexnet")
    plan = planned("central-reduce", model, workers)
    assert wire_bytes(plan, model, workers) == 2 * (workers - 1) * model.parameter_bytes
    assert round(wire_bytes(plan, model, workers) / MIB, 1) == mib
    sent, received = ports("central-reduce", "alexnet", workers)
    assert sent[0] == received[0] == (workers - 1) * model.parameter_bytes


@pytest.mark.parametrize("strategy", ["ring-allreduce", "ring-allreduce-overlap", "native-allreduce"])
@pytest.mark.parametrize("workers", [2, 3, 4, 7])
def test_every_port_of_a_ring_carries_its_share(strategy: str, workers: int) -> None:
    """2 (n-1)/n |W|, to two chunks' rounding per unit; in total exactly 2 (n-1) |W|."""
    model = described("alexnet")
    plan = planned(strategy, model, workers)
    sent, received = ports(strategy, "alexnet", workers)
    units = len({t.unit for t in declared(plan, model, workers)})
    share = 2 * (workers - 1) * model.parameter_bytes / workers
    assert sum(sent.values()) == 2 * (workers - 1) * model.parameter_bytes
    for rank in range(workers):
        assert abs(sent[rank] - share) <= 2 * 4 * units
        assert abs(received[rank] - share) <= 2 * 4 * units


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_the_rings_formula_is_its_rounds_played_out(workers: int) -> None:
    model = made_up((17,))
    plan = resolved(model, ring("l0"), workers=workers)
    size = [stop - start for start, stop in (chunk(17, workers, i) for i in range(workers))]
    for transfer in declared(plan, model, workers):
        r = transfer.source
        scatter = [size[(r - k) % workers] for k in range(workers - 1)]
        gather = [size[(r + 1 - k) % workers] for k in range(workers - 1)]
        assert transfer.destination == (r + 1) % workers
        assert transfer.bytes == 4 * (sum(scatter) + sum(gather))


@pytest.mark.parametrize("workers", [2, 3, 4, 5, 8])
def test_a_trees_root_carries_its_depth_in_models(workers: int) -> None:
    model = described("alexnet")
    size, depth = model.parameter_bytes, (workers - 1).bit_length()
    sent, received = ports("tree-allreduce", "alexnet", workers)
    assert sum(sent.values()) == 2 * (workers - 1) * size
    assert sent[0] == received[0] == depth * size
    assert all(sent[rank] == received[rank] == size for rank in range(1, workers, 2)), "leaves"


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_halving_and_doubling_moves_what_a_ring_moves(workers: int) -> None:
    """To one element's rounding per unit and round."""
    model = described("alexnet")
    plan = planned("tree-allreduce", model, workers, algorithm="recursive-halving-doubling")
    units = len({t.unit for t in declared(plan, model, workers)})
    share = 2 * (workers - 1) * model.parameter_bytes / workers
    sent, received = ports("tree-allreduce", "alexnet", workers, algorithm="recursive-halving-doubling")
    assert sum(sent.values()) == 2 * (workers - 1) * model.parameter_bytes
    for rank in range(workers):
        assert abs(sent[rank] - share) <= 2 * 4 * units * workers.bit_length()
        assert abs(received[rank] - share) <= 2 * 4 * units * workers.bit_length()


def test_workers_beyond_a_power_of_two_hand_over_everything() -> None:
    """Six: pairs 0-1 and 2-3, then four; ranks 0 and 2 move |W| each way, 1 and 3 that and what 4 and 5 move."""
    model = made_up((64,))
    order = Order(unit="layer")
    plan = resolved(
        model, LayerPlan(layer="l0", exchange="recursive-halving-doubling", order=order), workers=6
    )
    sent: Counter[int] = Counter()
    for transfer in declared(plan, model, 6):
        sent[transfer.source] += transfer.bytes
    core = 2 * 3 * 64 * 4 // 4
    assert [sent[rank] for rank in range(6)] == [256, 256 + core, 256, 256 + core, core, core]


@pytest.mark.parametrize("strategy", SERVED)
@pytest.mark.parametrize("workers", [2, 4])
def test_parameter_servers_move_the_model_there_and_back(strategy: str, workers: int) -> None:
    """Each worker sends and receives |W|; beside the workers, what its own shard holds stays at home."""
    model = described("vgg-small")
    size = trainable_bytes(model)
    dedicated = planned(strategy, model, workers, where="dedicated", servers=3)
    assert wire_bytes(dedicated, model, workers) == 2 * workers * size
    beside = planned(strategy, model, workers)
    assert wire_bytes(beside, model, workers) == 2 * (workers - 1) * size
    sent, received = ports(strategy, "vgg-small", workers, where="dedicated", servers=3)
    assert all(sent[rank] == received[rank] == size for rank in range(workers))


@pytest.mark.parametrize("servers", [1, 2, 5])
@pytest.mark.parametrize("workers", [2, 4])
def test_every_server_carries_its_part_of_the_model(servers: int, workers: int) -> None:
    """With one, all of it (papers 002's T_p); more of them divide it evenly, to one element of each layer."""
    model = described("alexnet")
    sent, received = ports(
        "parameter-server", "alexnet", workers, where="dedicated", servers=servers, split_over=1
    )
    share = workers * model.parameter_bytes / servers
    for server in range(workers, workers + servers):
        assert sent[server] == received[server]
        assert abs(sent[server] - share) <= workers * 4 * len(model.layers)


FULLY_CONNECTED = {"fc6": (25088, 4096), "fc7": (4096, 4096), "fc8": (4096, 1000)}
"""VGG-19's: inputs and outputs."""


@pytest.mark.parametrize("strategy", ["late-multiply", "p3+late-multiply"])
@pytest.mark.parametrize("workers", [2, 4, 8])
def test_late_multiply_moves_rows_of_factors(strategy: str, workers: int) -> None:
    """Papers 000, section 2.1: for M samples a worker, each sends (n-1) M (N+K) numbers instead of a share of N K;
    here 64 samples a step. The rest moves what it would without."""
    model, samples = described("vgg19"), 64
    plan = planned(strategy, model, workers)
    assert {layer.layer for layer in plan.layers if layer.exchange == "factors"} == {*FULLY_CONNECTED}
    by_layer = wire_bytes_by_layer(plan, model, workers)
    for name, (inputs, outputs) in FULLY_CONNECTED.items():
        assert by_layer[name] == workers * (workers - 1) * (samples // workers) * (inputs + outputs) * 4
        sent = Counter(t.source for t in declared(plan, model, workers) if t.layer == name)
        assert sent == dict.fromkeys(range(workers), workers - 1), "one message to each other worker"
    convolutions = sum(layer.parameter_bytes for layer in model.layers if layer.name not in FULLY_CONNECTED)
    rest = sum(size for name, size in by_layer.items() if name not in FULLY_CONNECTED)
    assert rest == 2 * (workers - 1) * convolutions


def test_the_papers_layer_of_ten_thousand_inputs_and_outputs() -> None:
    """100 million synapses are 400 MB as a gradient; 32 samples of a worker 2.56 MB to each other as factors."""
    factors = Factors(rows=1, inputs=10_000, outputs=10_000)
    model = made_up((10**8,))
    model = replace(model, layers=(replace(model.layers[0], factors=factors),))
    plan = resolved(model, LayerPlan(layer="l0", exchange="factors"), workers=2)
    assert model.parameter_bytes == 400_000_000
    assert [(t.source, t.destination, t.bytes) for t in declared(plan, model, 2)] == [
        (0, 1, 2_560_000),
        (1, 0, 2_560_000),
    ]


def test_uneven_batches_are_declared_as_they_are_dealt() -> None:
    factors = Factors(rows=3, inputs=5, outputs=2)
    model = made_up((12,))
    model = replace(model, layers=(replace(model.layers[0], factors=factors),))
    by_factors = LayerPlan(layer="l0", exchange="factors")
    plan = resolved(model, by_factors, workers=4, training={"steps": 1, "global_batch": 10})
    sent = {t.source: t.bytes for t in declared(plan, model, 4)}
    assert sent == {rank: samples * 3 * 7 * 4 for rank, samples in enumerate((3, 3, 2, 2))}
    half = {"steps": 1, "global_batch": 10, "precision": "bf16"}
    plan = resolved(model, by_factors, workers=4, training=half)
    assert {t.source: t.bytes for t in declared(plan, model, 4)} == {r: n // 2 for r, n in sent.items()}
    plan = resolved(
        model, replace(by_factors, codec="fp16"), workers=4, training={**half, "precision": "float32"}
    )
    assert {t.source: t.bytes for t in declared(plan, model, 4)} == {r: n // 2 for r, n in sent.items()}


@pytest.mark.parametrize("samples", [7_000, 7_100])
def test_large_batches_go_around_the_ring_as_ever(samples: int) -> None:
    """fc6 pays up to 2 N K / (N + K) = 7,042 rows a step."""
    training = {"steps": 1, "global_batch": samples}
    plan = build_plan(job("late-multiply", 4, training=training), described("vgg19"))
    chosen = {layer.layer for layer in plan.layers if layer.exchange == "factors"}
    assert chosen == ({"fc6"} if samples == 7_000 else set())
    plan = build_plan(job("late-multiply", 4, {"layers": "all"}, training=training), described("vgg19"))
    assert len(plan.warnings) == (2 if samples == 7_000 else 3)
    assert any("fc8 moves 4.4 times as many bytes by factors" in warning for warning in plan.warnings)


@pytest.mark.parametrize("strategy", ["central-reduce", "p3", "ring-allreduce"])
def test_half_precision_halves_what_it_encodes(strategy: str) -> None:
    """A server that updates answers with parameters, exact: only the way in is halved."""
    model = described("cnn")
    full = wire_bytes(planned(strategy, model, 2), model, 2)
    half = wire_bytes(planned(strategy, model, 2, codec="fp16"), model, 2)
    assert half * 4 == full * (2 if strategy == "ring-allreduce" else 3)
    if strategy != "ring-allreduce":
        on_workers = planned(strategy, model, 2, codec="fp16", update="worker")
        assert wire_bytes(on_workers, model, 2) * 2 == full


@pytest.mark.parametrize(
    ("codec", "dtype", "size"),
    [
        ("fp32", "float64", 8),
        ("fp32", "bfloat16", 2),
        ("fp32", "complex64", 8),
        ("fp16", "float64", 2),
        ("bf16", "float32", 2),
    ],
)
def test_bytes_of_one_element(codec: str, dtype: str, size: int) -> None:
    assert encoding(codec).bytes(dtype, 3) == 3 * size


@pytest.mark.parametrize("strategy", PLANNED)
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_layers_bytes_add_up_to_the_wires(strategy: str, workers: int) -> None:
    for name in ("resnet32", "mixed", "tied", "frozen"):
        model = described(name)
        plan = planned(strategy, model, workers)
        by_layer = wire_bytes_by_layer(plan, model, workers)
        assert by_layer.keys() == {layer.layer for layer in plan.layers}
        assert sum(by_layer.values()) == wire_bytes(plan, model, workers)
        assert workers > 1 or sum(by_layer.values()) == 0


def test_a_buckets_bytes_are_shared_by_elements() -> None:
    model = made_up((10,), (30,))
    order = Order(unit="bucket", size=1000)
    plan = resolved(model, ring("l0", order=order), ring("l1", order=order))
    assert wire_bytes_by_layer(plan, model, 2) == {"l0": 80, "l1": 240}


def test_a_peer_and_a_lone_worker_declare_nothing() -> None:
    peer = built("ddp", "cnn", 2)
    assert isinstance(peer, Wrapper)
    assert list(declared(peer, described("cnn"), 2)) == []
    assert wire_bytes_by_layer(peer, described("cnn"), 2) == {}
    alone = resolved(made_up((4,)), LayerPlan(layer="l0"), workers=1)
    assert list(declared(alone, made_up((4,)), 1)) == []


@pytest.mark.parametrize("count", [0, 1, 6, 7, 100])
@pytest.mark.parametrize("parts", [1, 2, 3, 8])
def test_chunks_are_a_partition_into_nearly_equal_parts(count: int, parts: int) -> None:
    spans = [chunk(count, parts, i) for i in range(parts)]
    assert spans[0][0] == 0
    assert spans[-1][1] == count
    assert all(left[1] == right[0] for left, right in pairwise(spans))
    sizes = [stop - start for start, stop in spans]
    assert max(sizes) - min(sizes) <= 1
