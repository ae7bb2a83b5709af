"""JobSpec: every rule names the dotted field, the value, the rule and the remedy; and the schema explains itself."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from pydantic import TypeAdapter

from engine.errors import UnknownNameError, UserError
from engine.plan.cluster import Cluster
from engine.plan.job import JobSpec
from engine.plan.optimizers import OPTIMIZERS
from engine.plan.plan import Plan, Wrapper
from engine.plan.serde import from_plain, to_plain
from engine.strategies import check_options
from tests.plans import job

VALID: dict[str, Any] = to_plain(job("p3", 2))


def changed(path: str, value: Any) -> dict[str, Any]:
    """The valid job with one field replaced."""
    plain = copy.deepcopy(VALID)
    target = plain
    *parents, last = path.split(".")
    for name in parents:
        target = target[name]
    target[last] = value
    return plain


MODEL = {"name": None, "entrypoint": None, "directory": None, "options": {}}
BROKEN: list[tuple[str, Any, str, str]] = [
    # what is set, to what, the field that is named, a part of the message
    ("name", "  ", "name", "must have 1 to 200 characters"),
    ("name", "x" * 201, "name", "Give the job a short name"),
    ("model", MODEL, "model.name", "exactly one of name and entrypoint"),
    ("model", {**MODEL, "name": "cnn", "entrypoint": "a:b"}, "model.name", "Remove or add one"),
    (
        "model",
        {**MODEL, "entrypoint": "mine"},
        "model.entrypoint",
        "Example: net:build, or mymodel.net:build",
    ),
    ("model", {**MODEL, "entrypoint": ":b"}, "model.entrypoint", "must read module:function"),
    (
        "model",
        {**MODEL, "entrypoint": "/a/net.py"},
        "model.entrypoint",
        "Write net:function, and /a as directory",
    ),
    ("model", {**MODEL, "entrypoint": "/a/net.py:b"}, "model.entrypoint", "Write net:b, and /a as directory"),
    ("model", {**MODEL, "entrypoint": "net.py:b"}, "model.entrypoint", "names a file; here it must read"),
    ("data", {**MODEL, "entrypoint": "a:b"}, "data.directory", "an entry point needs its directory"),
    ("cluster.workers", 0, "cluster.workers", "at least one worker. Use 1 or more"),
    ("cluster.workers", 1025, "cluster.workers", "Use fewer"),
    ("cluster.threads", 0, "cluster.threads", "at least one thread"),
    ("cluster.silence_s", 2.9, "cluster.silence_s", "from 3 to 86400 seconds. 15 is the default"),
    ("cluster.silence_s", 86401, "cluster.silence_s", "from 3 to 86400 seconds"),
    ("cluster.device", "tpu", "cluster.device", "Known: auto, cpu, cuda"),
    ("network.rate", "fast", "network.rate", "Write it as 300Mbit or 10Gbit"),
    ("network", {"hosts": 65}, "network.hosts", "1 to 64 hosts"),
    ("network", {"hosts": 0}, "network.hosts", "1 to 64 hosts"),
    ("network", {"latency": "1ms"}, "network.latency", "Give hosts, or leave it out"),
    ("network", {"host_rates": ["1Gbit"]}, "network.host_rates", "only a lab's links have it"),
    ("network", {"hosts": 2, "host_rates": ["1Gbit"]}, "network.host_rates", "1 rates for 2 hosts"),
    ("network", {"hosts": 1, "host_rates": ["slow"]}, "network.host_rates.0", "Write it as 300Mbit"),
    (
        "network",
        {"hosts": 1, "host_rates": ["1Gbit"], "rate": "1Gbit"},
        "network.rate",
        "Give one of the two",
    ),
    ("network", {"hosts": 1, "latency": "2 fortnights"}, "network.latency", "Write it as 0.1ms"),
    ("network", {"hosts": 1, "latency": "11s"}, "network.latency", "is not a time from 1 us to 10 s"),
    ("network.rate", "1bit", "network.rate", "is not a rate from 1 kbit/s"),
    ("network.rate", "9" * 400 + "bit", "network.rate", "to 100 Tbit/s"),
    ("network.rate", "0" * 3000 + "100Mbit", "network.rate", "Write it as 300Mbit"),
    ("network.rate", " " * 3000 + "100Mbit", "network.rate", "Write it as 300Mbit"),
    ("network.rate", "100 Mbit\n", "network.rate", "Write it as 300Mbit"),
    ("network.rate", "\u0661\u0660\u0660Mbit", "network.rate", "Write it as 300Mbit"),
    ("network", {"hosts": 2, "latency": "\u0661ms"}, "network.latency", "Write it as 0.1ms"),
    ("training.steps", None, "training.steps", "exactly one of steps and epochs"),
    ("training.epochs", 1, "training.steps", "Give one of the two"),
    ("training.steps", 0, "training.steps", "must be greater than zero (steps)"),
    ("training.clip_norm", 0, "training.clip_norm", "must be greater than zero (a norm)"),
    ("training.clip_norm", float("nan"), "training.clip_norm", "Give a positive number"),
    ("training.clip_norm", float("inf"), "training.clip_norm", "Give a positive number"),
    ("training.clip_norm", 10**400, "training.clip_norm", "is too large"),
    ("training.global_batch", 0, "training.global_batch", "at least one sample"),
    ("training.micro_batches", 0, "training.micro_batches", "Use 1 for no accumulation"),
    ("training.precision", "fp8", "training.precision", "Known: bf16, float32, float64"),
    ("training.seed", -1, "training.seed", "must be from 0 to 4294967295"),
    ("training.seed", 2**32, "training.seed", "Use a small number"),
    ("training.target_accuracy", 97, "training.target_accuracy", "97 % is 0.97"),
    ("training.target_accuracy", 0, "training.target_accuracy", "is a share from 0 to 1"),
    ("optimizer.name", "sdg", "optimizer.name", "Did you mean 'sgd'? Known: adadelta, "),
    ("optimizer.learning_rate", 0, "optimizer.learning_rate", "must be greater than zero"),
    ("optimizer.learning_rate", float("nan"), "optimizer.learning_rate", "must be greater than zero"),
    ("schedule.name", "cosin", "schedule.name", "Did you mean 'cosine'?"),
    ("evaluation.every_steps", 0, "evaluation.every_steps", "at least 1"),
    (
        "evaluation",
        {"every_steps": 5, "every_epochs": 2},
        "evaluation.every_steps",
        "Leave one of the two out",
    ),
    ("evaluation.every_epochs", -1, "evaluation.every_epochs", "passes over the data"),
    ("telemetry.detail", "some", "telemetry.detail", "Known: all, chosen"),
    ("telemetry.every", 0, "telemetry.every", "at least 1"),
    ("telemetry.last_s", -1.0, "telemetry.last_s", "3600"),
    ("fidelity", "simulate", "fidelity", "simulation is not built yet. Use train or rehearse"),
    ("fidelity", "dream", "fidelity", "Known: rehearse, simulate, train"),
    ("priority", 1001, "priority", "must be from -1000 to 1000"),
]


@pytest.mark.parametrize(("path", "value", "field", "message"), BROKEN)
def test_every_rule_names_field_value_rule_and_remedy(
    path: str, value: Any, field: str, message: str
) -> None:
    with pytest.raises(UserError) as caught:
        from_plain(JobSpec, changed(path, value))
    error = caught.value
    assert error.field == field
    assert message in str(error)
    assert str(error) == f"{error.field} = {error.value!r}: {error.rule}. {error.remedy}"
    assert error.to_dict() == {
        "field": field,
        "value": error.value,
        "rule": error.rule,
        "remedy": error.remedy,
    }
    assert error.remedy


@pytest.mark.parametrize(
    ("path", "value", "field", "message"),
    [
        ("optimizer.options", {"momentumm": 0.9}, "optimizer.options.momentumm", "Did you mean 'momentum'"),
        (
            "optimizer.groups", [{"match": "*.bias", "options": {"lr": 0.1, "centred": True}}],
            "optimizer.groups.0.options.centred", "no such option of sgd",
        ),
        ("optimizer.options", {"lr": 0.1}, "optimizer.options.lr", "0.1: the learning rate is a field of its own"),
        ("schedule", {"name": "step"}, "schedule.options", "step needs step_size. Give schedule.options.step_size"),
        ("schedule.options", {"T_maximum": 3}, "schedule.options.T_maximum", "no such option of constant"),
    ],
)  # fmt: skip
def test_options_that_torch_does_not_have_are_refused_but_stay_readable(
    path: str, value: Any, field: str, message: str
) -> None:
    stored = from_plain(JobSpec, changed(path, value))
    with pytest.raises(UserError) as caught:
        check_options(stored)
    assert caught.value.field == field
    assert message in str(caught.value)


def test_lengths_in_steps_and_in_epochs_exclude_one_another() -> None:
    by_epochs = changed("training.steps", None)
    by_epochs["training"]["epochs"] = 0
    with pytest.raises(UserError, match=r"training\.epochs = 0\.0: must be greater than zero"):
        from_plain(JobSpec, by_epochs)
    by_epochs["training"]["epochs"] = 0.5
    assert from_plain(JobSpec, by_epochs).training.epochs == 0.5


def test_a_rehearsals_links_keep_a_rate_after_the_division() -> None:
    rehearsal = changed("network.rate", "10kbit") | {"fidelity": "rehearse", "rehearsal": {"scale": 15}}
    with pytest.raises(
        UserError, match=r"network\.rate = '10 kbit/s': divided by rehearsal\.scale \(15\) it is below"
    ):
        from_plain(JobSpec, rehearsal)
    assert from_plain(JobSpec, rehearsal | {"rehearsal": {"scale": 10}}).scale == 10


def test_bounds_themselves_are_allowed() -> None:
    for path, value in [
        ("training.seed", 2**32 - 1), ("training.target_accuracy", 1), ("priority", -1000), ("cluster.threads", 1),
        ("training.global_batch", 2), ("name", "x" * 200), ("network.rate", "1kbit"), ("network.rate", "100 Tbps"),
    ]:  # fmt: skip
        from_plain(JobSpec, changed(path, value))


def test_rate_in_bits_per_second() -> None:
    assert job(network={"rate": "1.5 Gbit/s"}).network.rate_bps == 1_500_000_000
    assert job().network.rate_bps is None


def test_a_labs_links_are_read() -> None:
    network = job(network={"hosts": 2, "host_rates": ["1Gbit", "100Mbit"], "latency": "0.1ms"}).network
    assert (network.rate_bps, network.latency_ns) == (10**8, 100_000)
    assert network.host_rates_bps == (10**9, 10**8)
    assert job(network={"hosts": 3, "rate": "1Mbit"}).network.host_rates_bps == (10**6,) * 3
    assert job(network={"hosts": 2}).network.host_rates_bps == (None, None)
    assert job(network={"rate": "1Mbit"}).network.host_rates_bps == ()


def test_tensor_optimizers_are_known_as_such() -> None:
    by_scope = {name: job(optimizer={"name": name}).optimizer.elementwise for name in OPTIMIZERS}
    assert {name for name, elementwise in by_scope.items() if not elementwise} == {"adafactor", "muon"}


def test_a_cluster_needs_a_worker() -> None:
    with pytest.raises(UserError, match=r"cluster\.workers = 0: a job needs at least one worker"):
        Cluster(workers=0)


def test_an_error_moved_into_an_enclosing_object_stays_what_it_is() -> None:
    inner = UnknownNameError("rank", "prio", "value", ["fifo", "priority"])
    moved = inner.within("order").within("layers.0")
    assert type(moved) is UnknownNameError
    assert (
        str(moved)
        == "layers.0.order.rank = 'prio': no such value. Did you mean 'priority'? Known: fifo, priority"
    )
    assert str(UserError("", [1], "is a list", "Write an object")) == "[1]: is a list. Write an object"
    assert UserError("", 3, "is odd", "Use 2").within("cluster").field == "cluster"


def objects(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object with properties anywhere in a JSON schema."""
    if isinstance(schema, dict):
        if "properties" in schema:
            yield schema.get("title", path), schema
        for key, value in schema.items():
            yield from objects(value, f"{path}/{key}")
    elif isinstance(schema, list):
        for item in schema:
            yield from objects(item, path)


@pytest.mark.parametrize("kind", [JobSpec, Plan, Wrapper])
def test_every_field_of_the_schema_is_explained(kind: type) -> None:
    """The form shows the string under each field, and lets no unknown field through."""
    found = dict(objects(TypeAdapter(kind).json_schema()))
    for title, schema in found.items():
        silent = [name for name, field in schema["properties"].items() if not field.get("description")]
        assert silent == [], title
        assert schema["additionalProperties"] is False, title


def test_schema_and_reader_know_the_same_fields() -> None:
    schema = dict(objects(TypeAdapter(JobSpec).json_schema()))
    for title, found in schema.items():
        kinds = {
            type(v).__name__: type(v)
            for v in nested(
                job(
                    "p3",
                    2,
                    optimizer={"groups": [{"match": "*"}]},
                    overrides=[{"codec": "fp16"}],
                    faults={"stragglers": [{"worker": 1}]},
                    checkpoint={"start": {"job": "another"}},
                )
            )
        }
        assert set(found["properties"]) == {f.name for f in fields(kinds[title]) if f.init}


def nested(value: Any) -> Iterator[Any]:
    """A dataclass and all dataclasses within."""
    if is_dataclass(value):
        yield value
        for f in fields(value):
            yield from nested(getattr(value, f.name))
    elif isinstance(value, tuple):
        for item in value:
            yield from nested(item)
