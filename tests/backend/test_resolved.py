"""What of a specification decides whether jobs compare is written in one way, however somebody wrote it."""

from __future__ import annotations

from typing import Any

import pytest

from backend.figures import resolved


@pytest.mark.parametrize(
    ("part", "given", "text"),
    [
        ("model", {"name": "vgg-small"}, "vgg-small"),
        ("model", {"name": "vgg-small", "options": {}}, "vgg-small"),
        ("model", {"name": "vgg-small", "options": {"classes": 10}}, "vgg-small"),
        ("model", {"name": "vgg-small", "options": {"classes": 100}}, "vgg-small (classes=100)"),
        ("model", {"name": "vgg-small", "options": {"no such": 1}}, "vgg-small (no such=1)"),
        (
            "model",
            {"name": "of another version", "options": {"b": 2, "a": 1}},
            "of another version (a=1, b=2)",
        ),
        ("model", {"entrypoint": "mine:build", "options": {"hidden": 64}}, "mine:build (hidden=64)"),
        ("model", {}, "?"),
        ("data", {"name": "digits", "options": {}}, "digits"),
    ],
)
def test_a_source_is_named_with_what_differs_from_its_defaults(
    part: str, given: dict[str, Any], text: str
) -> None:
    assert resolved.source(part, {part: given}) == text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "mine:build"),
        ({"hidden": 64}, "mine:build"),
        ({"hidden": 64, "deep": [1, 2]}, "mine:build"),
        ({"hidden": 32, "deep": [1, 2]}, "mine:build (hidden=32)"),
        ({"other": 1}, "mine:build (other=1)"),
    ],
)
def test_an_own_models_defaults_may_be_written_out_too(options: dict[str, Any], text: str) -> None:
    spec = {"model": {"entrypoint": "mine:build", "options": options}}
    assert resolved.source("model", spec, lambda: {"hidden": 64, "deep": [1, 2]}) == text
    written = ", ".join(f"{name}={value}" for name, value in sorted(options.items()))
    unknown = f"mine:build ({written})" if options else "mine:build"
    assert resolved.source("model", spec) == unknown, "as another version described it"


def test_what_is_no_specification_has_no_source() -> None:
    assert resolved.source("model", {"model": "vgg-small"}) == resolved.source("model", {}) == "?"


@pytest.mark.parametrize(
    ("network", "text"),
    [
        ({}, None),
        ({"rate": None}, None),
        ({"rate": "300Mbit"}, "300 Mbit/s"),
        ({"rate": "0.3 Gbit"}, "300 Mbit/s"),
        ({"rate": "300Mbit", "hosts": 4}, "300 Mbit/s on 4 hosts"),
        ({"host_rates": ["300Mbit", "0.3Gbit"], "hosts": 2}, "300 Mbit/s on 2 hosts"),
        ({"host_rates": ["300Mbit", "1Gbit"], "hosts": 2}, "300 Mbit/s, 1 Gbit/s on 2 hosts"),
        ({"hosts": 2, "latency": "0.1ms"}, "unlimited on 2 hosts, 100 us"),
        ({"hosts": 2, "latency": "100us"}, "unlimited on 2 hosts, 100 us"),
    ],
)
def test_equal_networks_have_equal_texts(network: dict[str, Any], text: str | None) -> None:
    assert resolved.network({"network": network}) == text


def test_an_entry_point_in_another_directory_is_said() -> None:
    def of(directory: str) -> dict[str, str]:
        source = {"entrypoint": "net:build", "directory": directory}
        return dict(resolved.settings({"model": source, "data": {"name": "digits"}}))

    assert of("/home/me/old") != of("/home/me/new")
    assert of("/home/me/new")["model directory"] == "/home/me/new"
    assert "data directory" not in of("/home/me/new")


def test_where_data_are_prepared_is_said_as_far_as_it_is_known() -> None:
    def of(**spec: Any) -> str:
        return dict(resolved.settings(spec))["data prepared"]

    assert of(input={"where": "processes", "processes": 1, "prefetch": 0}) == (
        "in 1 process of each worker, 0 batches ahead"
    )
    assert of(input={"where": "device"}) == "on the device that trains, 1 batch ahead"
    assert of(input={"prefetch": 0}) == "in the thread that trains, 0 batches ahead"
    assert of(input={"where": "orbit"}) == "where=orbit", "another version may know it"
    assert of(fidelity="rehearse", input={"where": "processes"}) == of(), "a rehearsal reads none"


def test_settings_have_their_defaults_written_out() -> None:
    plain = resolved.settings({})
    written = {
        "optimizer": {"name": "sgd"},
        "training": {"micro_batches": 1, "clip_norm": None, "deterministic": False},
    }
    assert resolved.settings(written) == plain
    assert dict(plain) == {
        "optimizer": "sgd",
        "micro batches": "1",
        "clip norm": "off",
        "deterministic": "off",
        "data prepared": "in a thread of each worker, 1 batch ahead",
    }
    changed = {
        "optimizer": {"name": "adam"},
        "training": {"micro_batches": 2, "clip_norm": 0.5, "deterministic": True},
        "input": {"where": "processes"},
    }
    assert dict(resolved.settings(changed)) == {
        "optimizer": "adam", "micro batches": "2", "clip norm": "on", "deterministic": "on",
        "data prepared": "in 2 processes of each worker, 1 batch ahead",
    }  # fmt: skip
