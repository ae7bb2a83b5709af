"""What fully_shard cannot keep up with ends an `fsdp` job with a reason and a remedy; nothing is lost silently."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import plain
from tests.equivalence.against_plain import USER_CODE
from tests.jobs import distance, job, run, succeed

pytestmark = pytest.mark.usefixtures("gang_lane")


def spec_of(how: str, **changes: Any) -> Any:
    """Every layer is a group of its own."""
    return job(
        model={"entrypoint": "sharded:model", "directory": str(USER_CODE), "options": {"how": how}},
        strategy={"name": "fsdp", "options": {"group_bytes": 100}},
        cluster={"workers": 2},
        **{"training": {"steps": 5, "precision": "float32"}, **changes},
    )


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("types", "fsdp` gathers parameters of one type at a time"),
        ("hook", "first.weight has a hook"),
        ("late_hook", "first.weight has a hook"),
        ("freeze", "first.weight was frozen in forward"),
        ("thaw", "first.weight was thawed in forward"),
        ("write", "first.weight was written to while `fsdp` held a part"),
        ("read", "use parameters in their own module only"),
        ("parts", "the loss calls parts of the model, and never the model"),
        ("twice", "differentiates a gradient"),
        ("order", "workers called the model's layers in different orders"),
    ],
)
def test_what_cannot_be_sharded_is_refused(how: str, reason: str, tmp_path: Path) -> None:
    end = run(spec_of(how), tmp_path).end
    assert end.status == "failed"
    assert end.error is not None
    assert end.error["type"] == "TrainingError", end.reason
    assert reason in end.reason
    assert "ddp" in end.reason


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
