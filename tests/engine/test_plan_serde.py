"""Jobs and plans in and out of YAML and JSON: nothing lost, nothing guessed, every mistake named where it is."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from engine.errors import UnknownNameError, UserError
from engine.plan.budget import MemorySpec
from engine.plan.documents import dump_yaml, load_file, load_text
from engine.plan.job import JobSpec
from engine.plan.plan import LayerPlan, Order, Plan, Servers, Wrapper
from engine.plan.rehearsal import RehearsalSpec
from engine.plan.serde import from_plain, only_set, to_plain
from engine.plan.units_of_measure import format_bytes, format_enough, format_rate, parse_bytes, parse_rate
from engine.strategies.model_parallel import Options as ModelParallel
from tests.plans import built, job, planned

FULL = job(
    "p3",
    2,
    {"slice_size": 100, "servers": None},
    network={"rate": "300Mbit"},
    optimizer={
        "name": "adam",
        "learning_rate": 1e-05,
        "options": {"betas": [0.9, 0.99], "eps": 1e-8},
        "groups": [{"match": "*.bias", "options": {"weight_decay": 0.0}}, {"match": "fc*"}],
    },
    schedule={"name": "multi-step", "options": {"milestones": [3, 7]}},
    baseline=None,
)
MADE: dict[str, Callable[[], Any]] = {
    "job": lambda: FULL,
    "plan": lambda: planned("p3", "cnn", 2),
    "peer": lambda: built("ddp", "cnn", 2),
    "small job": job,
}
"""When they are needed: describing a model takes seconds, and whoever collects tests imports this."""


@pytest.mark.parametrize("what", MADE)
def test_everything_survives_yaml_json_and_the_schema(what: str, tmp_path: Path) -> None:
    value = MADE[what]()
    kind = type(value)
    assert from_plain(kind, to_plain(value)) == value
    assert from_plain(kind, json.loads(json.dumps(to_plain(value)))) == value
    assert from_plain(kind, load_text(dump_yaml(value), "test")) == value
    assert TypeAdapter(kind).validate_python(to_plain(value)) == value
    for name, text in (("job.yaml", dump_yaml(value)), ("job.json", json.dumps(to_plain(value)))):
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert load_file(kind, tmp_path / name) == value


def test_yaml_keeps_the_declared_order_of_fields() -> None:
    assert list(load_text(dump_yaml(FULL), "test"))[:4] == ["name", "model", "data", "strategy"]


@pytest.mark.parametrize("text", ["1e-3", "1E-3", "+1e-3", "1.e-3", ".1e-2", "1.0e-3"])
def test_numbers_with_an_exponent_are_numbers(text: str) -> None:
    """PyYAML alone reads `1e-3` as text, and torch.optim would refuse it much later."""
    assert load_text(f"weight_decay: {text}", "test") == {"weight_decay": 0.001}


def test_text_that_looks_like_a_number_stays_text() -> None:
    assert load_text(dump_yaml(job(name="1e5")), "test")["name"] == "1e5"
    assert load_text("a: e3\nb: 1e\nc: 1x3\nd: '1e3'", "test") == {
        "a": "e3",
        "b": "1e",
        "c": "1x3",
        "d": "1e3",
    }


@pytest.mark.parametrize(
    ("kind", "plain", "field", "message"),
    [
        (JobSpec, [1], "", r"\[1\]: must be an object with the fields of JobSpec"),
        (JobSpec, None, "", "None: must be an object"),
        (
            JobSpec,
            {"nam": "x"},
            "nam",
            r"no such field of JobSpec. Did you mean 'name'\? Known: baseline, checkpoint, cluster, ",
        ),
        (JobSpec, {True: "x"}, "True", "True = 'x': no such field of JobSpec"),
        (JobSpec, {"name": "x"}, "model", "is required. Add model"),
        (JobSpec, {"name": 3}, "name", "must be text"),
        (JobSpec, {"name": None}, "name", "must be text"),
        (JobSpec, {"name": "x", "model": "cnn"}, "model", "fields of SourceSpec"),
        (JobSpec, {"name": "x", "model": {"nmae": 1}}, "model.nmae", "Did you mean 'name'"),
        (
            JobSpec,
            {"name": "x", "model": {"name": "cnn", "options": [1]}},
            "model.options",
            "must be an object",
        ),
        (
            JobSpec,
            {"name": "x", "model": {"name": "a", "options": {1: 2}}},
            "model.options",
            "must be an object",
        ),
        (Plan, {"strategy": "p3", "layers": "fc6"}, "layers", r"must be a list. Write \[..., ...\]"),
        (
            Plan,
            {"strategy": "p3", "layers": [{"layer": "a"}, {"layer": 3}]},
            "layers.1.layer",
            "must be text",
        ),
        (
            Plan,
            {"strategy": "p3", "layers": [], "servers": {"count": 1.5}},
            "servers.count",
            "a whole number",
        ),
        (
            Plan,
            {"strategy": "p3", "layers": [], "servers": {"count": True}},
            "servers.count",
            "a whole number",
        ),
        (
            Plan,
            {"strategy": "p3", "layers": [], "servers": {"where": "here"}},
            "servers.where",
            "Known: beside",
        ),
        (Plan, {"strategy": "p3", "layers": [], "servers": None}, "servers", "fields of Servers"),
        (Plan, {"strategy": "p3", "layers": [], "warnings": [1]}, "warnings.0", "must be text"),
        (Wrapper, {"strategy": "ddp", "runner": "horovod"}, "runner", "Known: ddp, fsdp"),
        (Wrapper, {"strategy": "ddp", "runner": "ddp", "layers": []}, "layers", "no such field of Wrapper"),
    ],
)
def test_every_mistake_is_named_where_it_is(kind: type, plain: Any, field: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        from_plain(kind, plain)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("training", "rule"),
    [
        ({"steps": "10"}, "a whole number"),
        ({"steps": 10.0}, "a whole number"),
        ({"steps": True}, "a whole number"),
        ({"steps": 10, "deterministic": 1}, "true or false"),
        ({"steps": 10, "clip_norm": "1"}, "a number"),
        ({"steps": 10, "clip_norm": False}, "a number"),
    ],
)
def test_types_are_never_guessed(training: dict[str, Any], rule: str) -> None:
    with pytest.raises(UserError, match=rule):
        job(training=training)


def test_whole_numbers_are_numbers_and_null_is_a_value() -> None:
    made = job(training={"epochs": 2, "clip_norm": None}, evaluation={"every_epochs": None})
    assert isinstance(made.training.epochs, float)
    assert made.evaluation.every_epochs is None


@pytest.mark.parametrize(
    ("plain", "field"),
    [
        ({"layers": [{"layer": "a", "order": {"unit": "slize"}}]}, "layers.0.order.unit"),
        ({"layers": [{"layer": "a", "order": {"unit": "slice"}}]}, "layers.0.order.size"),
        ({"layers": [{"layer": "a", "order": {"size": 3}}]}, "layers.0.order.size"),
        ({"layers": [{"layer": "a", "codec": "gzip"}]}, "layers.0.codec"),
        ({"layers": [{"layer": "a", "update": "peer"}]}, "layers.0.update"),
        ({"layers": [{"layer": "a"}, {"layer": "a"}]}, "layers"),
        ({"layers": [], "servers": {"count": -1}}, "servers.count"),
        ({"layers": [], "servers": {"split_over": 0}}, "servers.split_over"),
        ({"layers": [{"layer": "a", "place": 1}]}, "layers.0.place"),
        ({"layers": [{"layer": "a", "entropy_coding": True}]}, "layers.0.entropy_coding"),
        ({"layers": [{"layer": "a"}], "edges": [{"source": "a", "destination": "b"}]}, "edges"),
        ({"layers": [], "edges": [{"source": "a", "destination": "b", "codec": "x"}]}, "edges.0.codec"),
        ({"layers": [], "consistency": {"mode": "sometimes"}}, "consistency.mode"),
        ({"layers": [], "consistency": {"period": 4}}, "consistency.period"),
        ({"layers": [], "input": {"where": "gpu"}}, "input.where"),
        ({"layers": [], "input": {"prefetch": 65}}, "input.prefetch"),
    ],
)
def test_a_plans_own_rules_name_the_field_once(plain: dict[str, Any], field: str) -> None:
    with pytest.raises(UserError) as caught:
        from_plain(Plan, {"strategy": "by hand", **plain})
    assert caught.value.field == field


def test_values_are_checked_where_code_builds_them_too() -> None:
    with pytest.raises(UnknownNameError, match="Known: bucket, layer, slice"):
        Order(unit="packet")
    with pytest.raises(UserError, match=r"no such update site\. Use auto, worker or server"):
        LayerPlan(layer="a", update="peer")  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"no such place\. Use beside or dedicated"):
        Servers(where="there")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="bucket_bytes = 0: must be at least 1"):
        Wrapper(strategy="ddp", runner="ddp", bucket_bytes=0)


def test_broken_text_and_files_name_what_was_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"(?s)'job.yaml': is neither YAML nor JSON: .*line 1"):
        load_text("a: [1", "job.yaml")
    with pytest.raises(UserError, match=r"'dates.yaml': is neither YAML nor JSON"):
        load_text("a: 2026-13-45", "dates.yaml")
    with pytest.raises(UserError, match=r"nowhere\.yaml': cannot be read: .*Name a readable"):
        load_file(JobSpec, tmp_path / "nowhere.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=r"binary\.yaml': cannot be read"):
        load_file(JobSpec, tmp_path / "binary.yaml")


@pytest.mark.parametrize(
    ("text", "bps"),
    [
        ("300Mbit", 300e6),
        ("10 Gbit/s", 10e9),
        (" 1.5Gbps ", 1.5e9),
        ("64kbit", 64e3),
        ("64Kbit", 64e3),
        ("5000bit", 5e3),
        ("100 mbit", 100e6),
        ("250MBit/s", 250e6),
    ],
)
def test_rates_are_read_as_people_write_them(text: str, bps: float) -> None:
    assert parse_rate(text, "rate") == bps


@pytest.mark.parametrize(
    "text", ["", "300", "300MB", "300MBps", "-3Mbit", "1e3Mbit", "0Mbit", "Mbit", "3 Mbit fast"]
)
def test_other_rates_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="Write it as 300Mbit or 10Gbit"):
        parse_rate(text, "network.rate")


@pytest.mark.parametrize(
    ("bps", "text"),
    [
        (300e6, "300 Mbit/s"), (999.4e3, "999 kbit/s"), (999.9e3, "1 Mbit/s"), (1.5e9, "1.5 Gbit/s"), (12, "12 bit/s"),
        (999.9, "1 kbit/s"), (2e12, "2 Tbit/s"), (0, "0 bit/s"),
    ],
)  # fmt: skip
def test_rates_are_written_without_exponents(bps: float, text: str) -> None:
    assert format_rate(bps) == text


def test_sizes_are_written_in_binary_prefixes() -> None:
    shown = [format_bytes(n) for n in (0, 1023, 1024, 243_860_896, 3 * 2**40)]
    assert shown == ["0 B", "1023 B", "1.0 KiB", "232.6 MiB", "3.0 TiB"]


def test_what_is_enough_is_rounded_up() -> None:
    shown = [format_enough(n) for n in (0, 1023, 1024, 156_364, 156_365, 2**20 - 1, 243_860_896, 3 * 2**40)]
    assert shown == [
        "0 B", "1023 B", "1.0 KiB", "152.7 KiB", "152.8 KiB", "1024.0 KiB", "232.6 MiB", "3.0 TiB"
    ]  # fmt: skip
    draw = random.Random(0)
    for count in (draw.randrange(1, 2 ** draw.randrange(1, 50)) for _ in range(10_000)):
        assert count <= parse_bytes(format_enough(count), "") <= 1.1 * count


@pytest.mark.parametrize("spec", [MemorySpec, RehearsalSpec, ModelParallel])
@pytest.mark.parametrize("name", ["", "  "])
def test_a_profile_without_a_name_is_none(spec: type, name: str) -> None:
    with pytest.raises(UserError, match=r"profile = ' *': names no file\. Name one, or leave it out"):
        spec(profile=name)


OF_BEFORE: dict[str, dict[str, Any]] = {
    "every-step": {},
    "average": {"period": 4, "optimizer_state": False, "state": ["momentum_buffer"], "warm_up_steps": 0},
    "streaming": {"period": 4, "fragments": 2, "delay": 0, "mixing": 0.0},
    "asynchronous": {"scaling": "staleness", "own_writes": False},
    "softsync": {"contributions": 2},
    "bounded-staleness": {"bound": 0, "apply": "clock"},
}
"""By mode: what its settings were in plans that named all modes' settings, with null for those of others."""


@pytest.mark.parametrize("mode", OF_BEFORE)
def test_a_plan_that_was_stored_with_all_modes_settings_is_read(mode: str) -> None:
    everything = {name: None for settings in OF_BEFORE.values() for name in settings} | {"state": []}
    stored = {"strategy": "x", "layers": [], "consistency": {"mode": mode, **everything, **OF_BEFORE[mode]}}
    plan = from_plain(Plan, stored)
    plain = to_plain(plan.consistency)
    assert {name: plain[name] for name in OF_BEFORE[mode]} == OF_BEFORE[mode]
    assert from_plain(Plan, to_plain(plan)) == plan
    assert from_plain(Plan, only_set(plan)) == plan
    stored["consistency"]["nonsense"] = None
    with pytest.raises(UserError, match="no such field"):
        from_plain(Plan, stored)
