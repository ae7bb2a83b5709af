"""What cannot combine is refused with the rule and the remedy; what follows is settled, warned of and shown."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest

from engine.axes.codec import CODEC
from engine.errors import UnknownNameError, UserError
from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.flow import Flow, derive
from engine.plan.layer_rules import is_served
from engine.plan.plan import LayerPlan, Order, Plan, Servers, Workload
from engine.plan.rules import resolve
from engine.preview import notes, rows, text
from engine.strategies import build_plan
from tests.plans import built, described, job, made_up, planned, resolved, ring, served

MODEL = made_up((4, 2), (6,), ((3, "float32", False),))
ONE, TWO = Servers(count=1), Servers(count=2)
BUCKETS = Order(unit="bucket", size=100, returns="push")


def both(make: Any, **changes: Any) -> list[LayerPlan]:
    return [make("l0", **changes), make("l1", **changes)]


def native(layer: str, **changes: Any) -> LayerPlan:
    return ring(layer, exchange="native", **changes)


REFUSED: list[tuple[str, list[LayerPlan], dict[str, Any], str, str]] = [
    ("layer unknown", [*both(ring), ring("l2")], {}, "layers.l2", "no such trainable layer of made up"),
    ("layer missing", [ring("l0")], {}, "layers", r"\['l1'\]: these layers have no entry. Give every"),
    (
        "an empty pass", both(ring), {"training": {"steps": 1, "global_batch": 11, "micro_batches": 6}},
        "training.global_batch", r"smaller than 2 x 6 \(workers x micro-batches\). Use at least 12, or fewer micro",
    ),
    ("no server", both(served), {}, "servers.count", "parameter-server needs a server. Use at least one"),
    ("server for nobody", both(ring), {"servers": ONE}, "servers.count", "no layer's exchange uses a server"),
    (
        "two reducers", both(served, exchange="central-reducer"), {"servers": TWO},
        "layers.l0.exchange", "is one process, and the plan has 2 server shards. Use parameter-server, or one",
    ),
    ("shards beside nobody", both(served), {"servers": Servers(count=3)}, "servers.count", "only 2 workers to stand"),
    ("never agree", [LayerPlan(layer="l0"), LayerPlan(layer="l1")], {}, "layers.l0.exchange", "2 workers would never"),
    ("no return", both(served, order=Order()), {"servers": ONE}, "layers.l0.order.returns", "Use push, notify-pull"),
    ("return from a ring", both(ring, order=Order(returns="push")), {}, "layers.l0.order.returns", "has no server"),
    ("update on a ring", both(ring, update="server"), {}, "layers.l0.update", "ring-allreduce has no server to update"),
    ("bucket on a server", both(served, order=BUCKETS), {"servers": ONE}, "layers.l0.order.unit", "no home shard"),
    ("priority", both(native, order=Order(rank="priority")), {}, "layers.l0.order.rank", "hang or mix data"),
    ("half sums", both(native, codec="fp16"), {}, "layers.l0.codec", "would sum encoded values. Use fp32"),
    ("paced", both(native), {"network": {"rate": "1Gbit"}}, "network.rate", "leave network.rate out"),
    (
        "clipping on a server", both(served, update="server"),
        {"servers": ONE, "training": {"steps": 1, "clip_norm": 1.0}},
        "layers.l0.update", "global norm, so the update runs on the workers. Use worker. Leave clip_norm out",
    ),
    (
        "Muon on a server", both(served, update="server"), {"servers": ONE, "optimizer": {"name": "muon"}},
        "layers.l0.update", "muon looks at whole parameters.*Choose an element-wise optimizer",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("layers", "changes", "field", "message"),
    [case[1:] for case in REFUSED],
    ids=[case[0] for case in REFUSED],
)
def test_what_cannot_combine_is_refused(
    layers: list[LayerPlan], changes: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        resolved(MODEL, *layers, **changes)
    assert caught.value.field == field
    assert caught.value.remedy


def test_every_rule_that_is_broken_is_said_at_once() -> None:
    layers = [
        native("l0", codec="fp16", order=Order(rank="priority")),
        served("l1", order=BUCKETS, update="server"),
    ]
    changes = {"servers": Servers(count=3), "training": {"steps": 1, "clip_norm": 1.0}}
    with pytest.raises(UserError) as caught:
        resolved(MODEL, *layers, network={"rate": "1Gbit"}, **changes)
    assert [error.field for error in caught.value.every] == [
        "servers.count", "layers.l0.order.rank", "layers.l0.codec", "layers.l1.order.unit", "layers.l1.update",
        "network.rate",
    ]  # fmt: skip
    travelled = pickle.loads(pickle.dumps(caught.value))
    assert [error.to_dict() for error in travelled.every] == [error.to_dict() for error in caught.value.every]


@pytest.mark.parametrize("field", ["model", "data"])
def test_a_directory_goes_with_an_entry_point(field: str) -> None:
    name = {"model": "cnn", "data": "digits"}[field]
    with pytest.raises(UserError, match=f"/mine.*{name}' is one of ours.*entrypoint") as caught:
        resolved(MODEL, *both(ring), **{field: {"name": name, "directory": "/mine"}})
    assert caught.value.field == f"{field}.directory"


def test_a_parameter_without_elements_is_refused_unless_it_is_frozen() -> None:
    with pytest.raises(
        UserError, match=r"model = 'l0.p1': this parameter of shape \(0,\) has no elements"
    ) as caught:
        resolved(made_up((4, 0)), ring("l0"))
    assert caught.value.remedy == "Remove it, or set its requires_grad to False"
    assert resolved(made_up((4, (0, "float32", False))), ring("l0"))
    with pytest.raises(UserError, match="no elements"):
        built("fsdp", made_up((4, 0)), 2)


def test_factors_are_for_fully_connected_layers_alone() -> None:
    cnn, tied, vgg = described("cnn"), described("tied"), described("vgg-small")

    def by_factors(model: ModelDescription, chosen: str, **changes: Any) -> Plan:
        layers = [
            LayerPlan(layer=x.name, exchange="ring-allreduce") for x in model.layers if x.name != chosen
        ]
        return resolved(model, LayerPlan(layer=chosen, exchange="factors", **changes), *layers)

    with pytest.raises(
        UserError, match=r"this layer is a Conv2d: only a fully-connected layer .*Use an allreduce"
    ) as caught:
        by_factors(cnn, "0")
    assert caught.value.field == "layers.0.exchange"
    with pytest.raises(
        UserError, match=r"this layer is tied to decode\.weight: only a fully-connected layer"
    ):
        by_factors(tied, "encode")
    for unit in ("slice", "bucket"):
        with pytest.raises(UserError, match=r"factors have rows of the whole layer.*Use layer") as caught:
            by_factors(vgg, "fc6", order=Order(unit=unit, size=100))
        assert caught.value.field == "layers.fc6.order.unit"
    with pytest.raises(UserError, match="factors has no server to update on"):
        by_factors(vgg, "fc6", update="server")


def test_factors_that_are_larger_than_the_gradient_are_warned_of() -> None:
    """cnn's last layer, 128 inputs and 10 outputs: 64 rows of 138 numbers against twice 1,290."""
    model = described("cnn")
    layers = [LayerPlan(layer=x.name, exchange="ring-allreduce") for x in model.layers[:-1]]
    last = LayerPlan(layer=model.layers[-1].name, exchange="factors")
    plan = resolved(model, *layers, last)
    assert plan.workload == Workload(samples=64)
    assert plan.warnings == (
        f"{model.layers[-1].title} moves 3.4 times as many bytes by factors as its gradient would: a step of 64"
        " samples is too large for it.",
    )
    assert resolved(model, *layers, last, training={"steps": 1, "global_batch": 16}).warnings == ()
    assert resolve(plan, model, Cluster(workers=2), job(workers=2)) == plan
    assert [row.payload for row in rows(plan, model, job(workers=2))][-1] == "factors"
    assert resolved(model, *layers, replace(last, exchange="ring-allreduce")).workload is None


def test_half_precision_never_drops_imaginary_parts() -> None:
    model = made_up(((4, "complex64"),))
    with pytest.raises(UserError, match=r"would drop the imaginary parts of this layer\. Use fp32"):
        resolved(model, ring("l0", codec="fp16"))
    assert resolved(model, ring("l0"))


PLAIN: dict[str, Any] = {"name": "sgd"}
SERVING = {"servers": ONE, "optimizer": PLAIN}


@pytest.mark.parametrize(
    ("layer", "changes", "message"),
    [
        (ring("l0"), {"optimizer": PLAIN}, "ring-allreduce passes on sums"),
        (served("l0", update="worker"), SERVING, "a server that does not update answers with the sum"),
        (served("l0"), SERVING | {"training": {"steps": 1, "clip_norm": 1.0}}, "a server that does not update"),
        (served("l0"), {"servers": ONE, "optimizer": {"name": "adam"}}, "momentum of SGD, and adam is no plain SGD"),
        (served("l0"), {"servers": ONE, "optimizer": {"name": "sgd", "options": {"momentum": 0.9}}},
         "momentum of 0.9 for this layer, too. Use the optimizer sgd with momentum 0"),
        (served("l0"), {"servers": ONE, "optimizer": PLAIN | {"groups": [
            {"match": "l0.*", "options": {"momentum": 0.5}}]}}, "momentum of 0.5 for this layer"),
        (served("l0"), SERVING | {"schedule": {"name": "one-cycle", "options": {"max_lr": 1}}}, "one-cycle gives the"),
    ],
)  # fmt: skip
def test_a_codecs_momentum_is_of_own_gradients_and_applied_once(
    layer: LayerPlan, changes: dict[str, Any], message: str
) -> None:
    others = ring("l1") if layer.exchange == "ring-allreduce" else served("l1")
    with pytest.raises(UserError, match=message) as caught:
        resolved(MODEL, replace(layer, codec="dgc"), others, **changes)
    assert caught.value.field == "layers.l0.codec"
    assert caught.value.remedy
    assert resolved(MODEL, layer, others, **changes)


def test_a_codecs_momentum_may_stand_beside_the_optimizers() -> None:
    """Each for its layers; and none is of what workers that average exchange."""
    groups = [{"match": "l0.*", "options": {"momentum": 0.0}}]
    optimizer = {"name": "sgd", "options": {"momentum": 0.9}, "groups": groups}
    mine = served("l0", codec="dgc")
    assert resolved(MODEL, mine, served("l1"), servers=ONE, optimizer=optimizer)
    cycled = {"name": "one-cycle", "options": {"max_lr": 1, "cycle_momentum": False}}
    assert resolved(MODEL, mine, served("l1"), schedule=cycled, **SERVING)
    with pytest.raises(UserError, match="what workers that average have changed in several steps"):
        build_plan(job("parameter-averaging", 2, {"codec": "dgc"}), MODEL)


def test_bytes_of_messages_that_differ_in_length_are_a_limit() -> None:
    spec = job("ring-allreduce", 2, {"codec": "threshold"}, overrides=[{"layers": "l1", "codec": "top-k"}])
    said = notes(build_plan(spec, MODEL), MODEL, spec)
    assert "l0: messages differ in length, and bytes are the most that they have" in said
    assert not any("l1: messages" in one for one in said)


def test_a_peer_cannot_be_paced_either_but_alone_it_need_not_be() -> None:
    peer, model = built("ddp", "cnn", 2), described("cnn")
    with pytest.raises(UserError, match="the native backends cannot be paced in software"):
        resolve(peer, model, Cluster(workers=2, rate_bps=10**9), job("ddp", 2))
    assert resolve(peer, model, Cluster(workers=1, rate_bps=10**9), job("ddp")) == peer


def test_fully_shard_updates_shards_of_one_type() -> None:
    cluster = Cluster(workers=2)
    with pytest.raises(
        UserError, match="looks at whole parameters, of which a worker under fsdp holds a part"
    ):
        resolve(
            built("fsdp", "cnn", 2), described("cnn"), cluster, job("fsdp", 2, optimizer={"name": "muon"})
        )
    with pytest.raises(UserError, match=r"one type of parameter in a layer; l0 trains float16 and float32"):
        built("fsdp", made_up((4, (4, "float16"))), 2)
    assert built("fsdp", made_up((4, (4, "float16", False)), ((4, "float16"),)), 2)


def test_an_unknown_layer_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="Known: l0, l1"):
        resolved(MODEL, *both(ring), ring("l2"))


def test_auto_is_the_server_where_there_is_one() -> None:
    plan = resolved(MODEL, served("l0"), ring("l1"), servers=ONE)
    assert [layer.update for layer in plan.layers] == ["server", "worker"]
    assert [is_served(layer) for layer in plan.layers] == [True, False]
    assert plan.warnings == ()


@pytest.mark.parametrize(
    ("changes", "warnings"),
    [
        (
            {"training": {"steps": 1, "clip_norm": 1.0}},
            ["training.clip_norm needs", "clip_norm is a barrier"],
        ),
        ({"optimizer": {"name": "muon"}}, ["muon looks at whole parameters"]),
        ({"optimizer": {"name": "adafactor"}}, ["adafactor looks at whole parameters"]),
    ],
)
def test_auto_moves_to_the_workers_with_a_warning(changes: dict[str, Any], warnings: list[str]) -> None:
    plan = resolved(MODEL, *both(served), servers=ONE, **changes)
    assert {layer.update for layer in plan.layers} == {"worker"}
    assert len(plan.warnings) == len(warnings)
    assert all(part in found for part, found in zip(warnings, plan.warnings, strict=True))
    again = resolve(plan, MODEL, Cluster(workers=2), job(workers=2, **changes))
    assert again == plan, "a plan that is resolved again does not repeat its warnings"


def test_what_was_on_the_workers_anyway_is_not_warned_of() -> None:
    assert resolved(MODEL, *both(ring), optimizer={"name": "muon"}).warnings == ()
    assert (
        resolved(MODEL, *both(served, update="worker"), servers=ONE, optimizer={"name": "muon"}).warnings
        == ()
    )
    clipped = {"steps": 1, "clip_norm": 1.0}
    alone = [LayerPlan(layer="l0"), LayerPlan(layer="l1")]
    assert resolved(MODEL, *alone, workers=1, training=clipped).warnings == ()


@pytest.mark.parametrize(
    ("layer", "servers", "workers", "clip", "flow"),
    [
        (served("l0"), ONE, 2, None, ("gradient", "parameters", "server", "none")),
        (served("l0", update="worker"), ONE, 2, None, ("gradient", "summed gradient", "worker", "none")),
        (served("l0"), ONE, 2, 1.0, ("gradient", "summed gradient", "worker", "all units")),
        (ring("l0"), None, 2, None, ("gradient", "summed gradient", "worker", "none")),
        (ring("l0"), None, 2, 0.5, ("gradient", "summed gradient", "worker", "all units")),
        (LayerPlan(layer="l0"), None, 1, None, ("none", "none", "worker", "none")),
        (LayerPlan(layer="l0"), None, 1, 1.0, ("none", "none", "worker", "all units")),
    ],
)
def test_flow_follows_from_the_choices(
    layer: LayerPlan, servers: Servers | None, workers: int, clip: float | None, flow: tuple[str, ...]
) -> None:
    model, training = made_up((4,)), {"steps": 1, "clip_norm": clip}
    plan = resolved(model, layer, workers=workers, servers=servers, training=training)
    found = derive(plan.layers[0], job(workers=workers, training=training))
    assert isinstance(found, Flow)
    assert (found.payload, found.answer, found.update, found.barrier) == flow


def test_one_plan_may_mix_its_choices_layer_by_layer() -> None:
    """Slices by priority for one layer, a ring for the other: two optimizer homes in one job."""
    plan = resolved(MODEL, served("l0", unit="slice", size=4), ring("l1", codec="fp16"), servers=TWO)
    table = rows(plan, MODEL, job(workers=2))
    assert [(r.position, r.layer, r.kind, r.parameters, r.units, r.update, r.answer) for r in table] == [
        (0, "l0", "Linear", 6, 2, "server", "parameters"),
        (1, "l1", "Linear", 6, 1, "worker", "summed gradient"),
    ]
    assert [r.order for r in table] == ["slices of 4, when-ready, priority, push", "layers, when-ready, fifo"]
    assert [r.wire_bytes for r in table] == [2 * 6 * 4, 2 * 6 * 2]


def test_the_table_in_text_lines_up_and_ends_with_total_and_warnings() -> None:
    clipped = {"steps": 1, "clip_norm": 1.0, "global_batch": 8}
    plan = resolved(MODEL, *both(served), servers=ONE, training=clipped)
    lines = text(plan, MODEL, job(workers=2, training=clipped)).splitlines()
    assert lines[0].split() == [
        "layer", "kind", "parameters", "exchange", "codec", "order", "units", "update", "barrier", "wire/step",
    ]  # fmt: skip
    column = lines[0].index("exchange")
    assert [line[column:].split()[0] for line in lines[1:3]] == ["parameter-server"] * 2
    assert [line.split()[-2:] for line in lines[1:3]] == [["48", "B"], ["48", "B"]]
    assert lines[3] == ""
    assert lines[4] == "by hand: 96 B on the wire per step"
    assert [line.split(":")[0] for line in lines[5:]] == ["warning", "warning"]


def test_the_table_of_one_worker_says_that_nothing_travels() -> None:
    plan = planned("single", "cnn", 1)
    assert all(row.order == "-" and row.wire_bytes == 0 for row in rows(plan, described("cnn"), job()))
    assert text(plan, described("cnn"), job()).endswith("single: 0 B on the wire per step")


def test_rows_are_in_forward_order_however_the_plan_lists_its_layers() -> None:
    plan = resolved(MODEL, *reversed(both(ring)))
    assert isinstance(plan, Plan)
    assert [row.layer for row in rows(plan, MODEL, job(workers=2))] == ["l0", "l1"]


@pytest.mark.parametrize(
    "options",
    [
        *({"codec": row.name} for row in CODEC if "by-value" in row.traits),
        {"codec": "top-k", "entropy_coding": True},
    ],
    ids=str,
)
def test_what_depends_on_gradients_cannot_be_rehearsed(options: dict[str, Any]) -> None:
    spec = job("p3", 2, options, fidelity="rehearse", rehearsal={"device": "p100"})
    with pytest.raises(UserError, match=r"codec = .*a rehearsal's gradients are made up.*Train the job"):
        build_plan(spec, made_up((10,), (20,)))


@pytest.mark.parametrize(
    ("options", "exact"),
    [
        ({"codec": "threshold"}, False),
        ({"codec": "dgc"}, True),
        ({"codec": "dgc", "codec_options": {"warmup": 9}}, False),
        ({"codec": "top-k"}, True),
        ({"codec": "top-k", "entropy_coding": True}, False),
    ],
)
def test_bytes_that_are_a_limit_are_said_to_be(options: dict[str, Any], exact: bool) -> None:
    model, spec = made_up((1000,)), job("p3", 2, options, optimizer={"name": "sgd", "options": {"lr": 0.1}})
    plan = build_plan(spec, model)
    assert [row.wire_exact for row in rows(plan, model, spec)] == [exact]
    assert ("at most" in text(plan, model, spec)) is not exact
    assert any("differ in length" in note for note in notes(plan, model, spec)) is not exact
