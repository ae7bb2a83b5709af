"""Two jobs whose specifications name one model, and whose stored descriptions are of two."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from engine.plan.fingerprint import another_model, fingerprint
from engine.telemetry.comparison import RunConditions, outcome, speed_up
from engine.telemetry.estimates import Estimate


def described(hidden: int, **layer: Any) -> dict[str, Any]:
    weight = {"name": "fc.weight", "shape": [hidden, 10], "dtype": "float32", "trainable": True}
    return {
        "name": "mine",
        "layers": [{"index": 0, "name": "fc", "kind": "Linear", "parameters": [weight], **layer}],
    }


RUN = RunConditions(
    samples_per_s=Estimate(value=100.0), model="net:make", data="digits", precision="float32", global_batch=64,
    workers=2, threads=1, device="cpu", alone=True, fingerprint=fingerprint(described(16)),
)  # fmt: skip


def test_one_model_has_one_fingerprint_however_it_was_counted() -> None:
    again = json.loads(json.dumps(described(16, forward_flops=320, waits="when it is read")))
    assert fingerprint(again) == fingerprint(described(16))
    assert another_model(fingerprint(again), fingerprint(described(16))) is None


def test_nothing_is_said_where_nothing_is_stored() -> None:
    assert fingerprint(None) is fingerprint({}) is None
    assert another_model(None, fingerprint(described(16))) is None


@pytest.mark.parametrize("change", [{"kind": "Bilinear"}, {"name": "fc1"}])
def test_equally_many_parameters_may_be_another_model(change: dict[str, str]) -> None:
    said = another_model(fingerprint(described(16)), fingerprint(described(16, **change)))
    assert said == "the model is another one (both have 160 parameters, in other layers or shapes)"


def test_jobs_on_an_edited_model_do_not_compare() -> None:
    edited = replace(RUN, name="late", fingerprint=fingerprint(described(4096)))
    found = speed_up(edited, RUN)
    assert (found.value, found.verdict) == (None, "refused")
    assert found.refused == ("the model is another one (40,960 parameters and 160)",)
    assert outcome([replace(RUN, name="p3"), edited]).refused == (
        "the model is another one (160 parameters and 40,960)",
    )


def test_models_of_different_names_are_refused_once() -> None:
    other = replace(RUN, model="net:other", fingerprint=fingerprint(described(4096)))
    (reason,) = speed_up(other, RUN).refused
    assert reason.startswith("work: net:other")
