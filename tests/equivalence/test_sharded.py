"""What fully_shard cannot keep up with ends an `fsdp` job with a reason and a remedy; nothing is lost silently."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import plain
from tests.equivalence.against_plain import USER_CODE
from tests.jobs import distance, job, run, succeed

pytestmark = pytest.mark.usefixtures("gang_lane")

ONE_GROUP: dict[str, Any] = {"strategy": {"name": "fsdp", "options": {"group_bytes": 1_000_000}}}


def spec_of(how: str, **changes: Any) -> Any:
    """Every layer is a group of its own."""
    model = {"entrypoint": "sharded:model", "directory": str(USER_CODE), "options": {"how": how}}
    usual = {
        "strategy": {"name": "fsdp", "options": {"group_bytes": 100}},
        "model": model,
        "training": {"steps": 5, "precision": "float32"},
    }
    return job(cluster={"workers": 2}, **{**usual, **changes})


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("types", "fsdp` gathers parameters of one type at a time"),
        ("hook", "first.weight has a hook"),
        pytest.param("late_hook", "first.weight has a hook", marks=pytest.mark.soak),
        ("node", "the AccumulateGrad node of first.weight has a hook"),
        ("freeze", "first.weight was frozen in forward"),
        ("thaw", "first.weight was thawed in forward"),
        ("write", "first.weight was written to while `fsdp` held a part"),
        pytest.param(
            "write_part_backward",
            "first.weight was written to while `fsdp` held a part",
            marks=pytest.mark.soak,
        ),
        ("write_whole_backward", "last.weight was written to in backward while `fsdp` had gathered it"),
        ("data", "second.weight was written to while `fsdp` held a part"),
        ("kept", "second.weight: something other than the module"),
        pytest.param("kept_view", "second.weight: something other than the module", marks=pytest.mark.soak),
        ("read_later", "first.weight is read after `fsdp` has given up the whole of it"),
        ("given", "outside of the module that owns it, where `fsdp` holds a part"),
        ("read", "use parameters in their own module only"),
        ("swapped", "second.weight has been replaced by another tensor"),
        pytest.param(
            "swapped_by_parameters",
            "second.weight has been replaced by another tensor",
            marks=pytest.mark.soak,
        ),
        ("parts", "the loss calls parts of the model, and never the model"),
        ("twice", "differentiates a gradient"),
        ("order", "workers called the model's layers in different orders"),
        ("sizes", "workers called different collectives of PyTorch"),
        ("numpy", "use parameters in their own module only"),
    ],
)
def test_what_cannot_be_sharded_is_refused(how: str, reason: str, tmp_path: Path) -> None:
    end = run(spec_of(how), tmp_path).end
    assert end.status == "failed"
    assert end.error is not None
    assert end.error["type"] == "TrainingError", end.reason
    assert reason in end.reason
    assert "ddp" in end.reason


def test_a_class_of_the_models_own_is_refused(tmp_path: Path) -> None:
    """fully_shard puts other tensors in the parameters' places, of which the model says other things."""
    model = {"entrypoint": "classes:asking", "directory": str(USER_CODE), "options": {"how": "equality"}}
    end = run(spec_of("", model=model), tmp_path).end
    assert end.status == "failed"
    assert "layers.0.weight is a Weight, a class of the model's own" in end.reason


def test_a_transformer_that_goes_another_way_in_evaluation_is_named(tmp_path: Path) -> None:
    model = {"entrypoint": "reads:teacher", "directory": str(USER_CODE), "options": {"how": "layer"}}
    logs = succeed(spec_of("", model=model), tmp_path).logs()
    assert logs.count("warning: encoder: `fsdp` gathers these transformer layers") == 2, "each worker says it"


@pytest.mark.parametrize("how", ["swapped", "sharpness"])
def test_what_replaces_gathered_parameters_trains(how: str, tmp_path: Path) -> None:
    """The remedy of the refusal: one group holds all. Where the loss differentiates first, it still has them after."""
    changes: dict[str, Any] = {**ONE_GROUP, "training": {"steps": 5, "precision": "float64"}}
    found = succeed(spec_of(how, **changes), tmp_path)
    assert distance(found.state, plain.train(spec_of(how, **changes), 2)) <= 1e-11


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("by_hand", "the loss depends on first.weight outside of the module that owns it"),
        ("moved", "last.weight is where `fsdp` does not know of it"),
    ],
)
def test_what_is_lost_of_gathered_parameters_is_refused(how: str, reason: str, tmp_path: Path) -> None:
    """A gradient that nobody sums, as of a loss to which the model's own call contributes none; and a parameter that
    another module has, from which parts are not taken back."""
    end = run(spec_of(how, **ONE_GROUP), tmp_path).end
    assert end.status == "failed"
    assert reason in end.reason


def test_a_gradient_that_comes_in_parts_is_refused(tmp_path: Path) -> None:
    """The model learned something else, without a word."""
    end = run(spec_of("reentrant"), tmp_path).end
    assert end.status == "failed"
    assert "came in several parts, the second after `fsdp` had summed the first" in end.reason
    assert "use_reentrant=False" in end.reason


def test_an_evaluation_in_which_a_worker_has_no_samples_changes_nothing(tmp_path: Path) -> None:
    """It went forward alone, and then gathered ahead what the other did not."""
    shape = {"shape": [1, 8, 8], "classes": 10, "samples": 52, "test_samples": 1}
    changes: dict[str, Any] = {
        "data": {"name": "synthetic", "options": shape},
        "evaluation": {"every_epochs": 1, "at_end": True},
        "training": {"steps": 5, "precision": "float64"},
    }
    found = succeed(spec_of("", **changes), tmp_path)
    assert distance(found.state, plain.train(spec_of("", **changes), 2)) <= 1e-11


@pytest.mark.parametrize("how", ["rare", "normed"])
def test_what_can_be_sharded_equals_a_plain_loop(how: str, tmp_path: Path) -> None:
    """A layer that no worker used in a step is left alone: zeros, which were summed in its place, had it decayed, and
    moved by its momentum. A weight that is computed in each pass, and was computed of the original parameters before,
    holds them until the first one only."""
    changes: dict[str, Any] = {
        "optimizer": {
            "name": "sgd",
            "learning_rate": 0.05,
            "options": {"momentum": 0.9, "weight_decay": 0.01},
        },
        "training": {"steps": 5, "precision": "float64"},
    }
    found = succeed(spec_of(how, **changes), tmp_path)
    assert distance(found.state, plain.train(spec_of(how, **changes), 2)) <= 1e-11
