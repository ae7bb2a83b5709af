"""What a worker would hold in memory, over the API: predicted beside what the plan declares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.backend.figures_drawn import column
from tests.backend.job_specs import job_spec

MODEL = {"name": "bn-cnn"}
TWICE = {"steps": 2, "global_batch": 8, "micro_batches": 2}
"""Training whose steps are two passes."""


def memory(api: TestClient, **changes: Any) -> dict[str, Any]:
    answer = api.post("/api/v1/plans/memory", json=job_spec(**{"model": MODEL, **changes}))
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["memory"]
    return found


def test_a_worker_holds_less_where_activations_are_recomputed(api: TestClient) -> None:
    batch = {"steps": 2, "global_batch": 128}
    kept = memory(api, training=batch)
    dropped = memory(api, training=batch, overrides=[{"activations": "recompute"}])
    assert kept["total"] == kept["peak"]["total"] + kept["beside"]
    assert sum(kept["peak"]["parts"].values()) == kept["peak"]["total"]
    assert dropped["total"] < kept["total"]
    saved = {row["layer"]: row["saved"] for row in kept["layers"]}
    # A convolution's result, which batch normalization saves; the result of that, which ReLU writes to; statistics.
    image = kept["samples"] * 32 * 8 * 8 * 4
    assert saved["0"] == image
    assert saved["1"] == image + 2 * 32 * 4
    assert {row["layer"]: row["declared"] for row in kept["layers"]}["0"] == 2 * 32 * 9 * 4
    assert {row["activations"] for row in dropped["layers"]} == {"recompute"}
    assert f"passes of {kept['samples']} samples" in kept["text"]
    assert memory(api, training=batch) == kept


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "strategy.name": ({"strategy": {"name": "fsdp"}, "cluster": {"workers": 2}}, "what fully_shard holds"),
    "training.precision": ({"training": {"steps": 1, "precision": "bf16"}}, "autocast"),
    "training.steps": ({"training": {"steps": 0}}, "greater than zero"),
}


@pytest.mark.parametrize("field", REFUSED)
def test_what_nobody_predicts_is_refused_at_its_field(field: str, api: TestClient) -> None:
    changes, says = REFUSED[field]
    answer = api.post("/api/v1/plans/memory", json={**job_spec(model=MODEL), **changes})
    assert answer.status_code == 422
    assert field in answer.text
    assert says in answer.text


def test_a_file_that_changes_is_predicted_anew(api: TestClient, tmp_path: Path) -> None:
    """Also where the description stays what it was."""
    code = (
        "import torch\n"
        "from torch import nn\n"
        "class Same(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x):\n"
        "        return x.clone()\n"
        "    @staticmethod\n"
        "    def backward(ctx, gradient):\n"
        "        return gradient.new_zeros({count}, *gradient.shape).sum(0)\n"
        "class Net(nn.Sequential):\n"
        "    def forward(self, x):\n"
        "        return Same.apply(super().forward(x))\n"
        "def build():\n"
        "    return Net(nn.Flatten(), nn.Linear(64, 10))\n"
    )
    own = {"entrypoint": "net:build", "directory": str(tmp_path)}

    def total(count: int) -> int:
        (tmp_path / "net.py").write_text(code.format(count=count))
        answer = api.post("/api/v1/plans/memory", json=job_spec(model=own))
        assert answer.status_code == 200, answer.text
        found: int = answer.json()["memory"]["total"]
        return found

    assert total(1) < total(4000)


def test_what_a_worker_would_refuse_is_said_in_its_words(api: TestClient, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.rows, self.out = nn.GRU(8, 4, batch_first=True), nn.Linear(4, 10)\n"
        "        self.rows.weight_hh_l0.register_hook(lambda gradient: gradient * 2)\n"
        "    def forward(self, x):\n"
        "        return self.out(self.rows(x.reshape(-1, 8, 8))[0][:, -1])\n"
        "def build():\n"
        "    return Net()\n"
    )
    own = {"entrypoint": "net:build", "directory": str(tmp_path)}
    overrides = [{"kind": "GRU", "activations": "through-time"}]
    answer = api.post("/api/v1/plans/memory", json=job_spec(model=own, overrides=overrides))
    assert answer.status_code == 422
    assert "register_post_accumulate_grad_hook" in answer.text
    assert "values" not in answer.text


def test_a_model_that_looks_at_values_is_refused_with_its_line(api: TestClient, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "from torch import nn\n"
        "class Net(nn.Sequential):\n"
        "    def forward(self, x):\n"
        "        return super().forward(x if x.sum().item() > 0 else -x)\n"
        "def build():\n"
        "    return Net(nn.Flatten(), nn.Linear(64, 10))\n"
    )
    own = {"entrypoint": "net:build", "directory": str(tmp_path)}
    answer = api.post("/api/v1/plans/memory", json=job_spec(model=own))
    assert answer.status_code == 422
    assert "cannot be predicted" in answer.text
    assert "net.py" in answer.text


def test_a_prediction_for_which_memory_is_too_little_says_so(api: TestClient, tmp_path: Path) -> None:
    """The model takes it only there: it was described before."""
    (tmp_path / "net.py").write_text(
        "import sys\n"
        "from torch import nn\n"
        "def build():\n"
        "    taken = bytearray(2**44) if 'engine.liveness.request' in sys.modules else b''\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64 + 0 * len(taken), 10))\n"
    )
    own = {"entrypoint": "net:build", "directory": str(tmp_path)}
    answer = api.post("/api/v1/plans/memory", json=job_spec(model=own))
    assert answer.status_code == 422
    (said,) = answer.json()["errors"]
    assert said["rule"].startswith("needs more than ")
    assert said["rule"].endswith(" of memory for what its steps hold to be predicted")
    assert "TRAINYARD_DESCRIPTION_GIB" in said["remedy"]


def test_a_plan_within_a_budget_of_memory_has_a_reason_for_each_layer(api: TestClient) -> None:
    batch = {"steps": 2, "global_batch": 512}

    def planned(budget: Any, **changes: Any) -> dict[str, Any]:
        answer = api.post(
            "/api/v1/plans", json=job_spec(model=MODEL, training=batch, memory={"budget": budget}, **changes)
        )
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    budget = 11 * 2**20
    found = planned("11MiB")
    assert found["memory"]["budget"] == budget
    assert found["memory"]["peak"] <= budget < found["memory"]["kept"]
    rows = [layer["row"] for layer in found["layers"]]
    assert {row["activations"].partition(",")[0] for row in rows} == {"", "recompute"}
    assert all(row["activations_why"] for row in rows)
    assert any(note.startswith("memory.budget: 11.0 MiB; predicted peak") for note in found["notes"])
    assert all(row["activations_why"] in found["text"] for row in rows if row["activations"])
    predicted = memory(api, training=batch, memory={"budget": "11MiB"})
    steps = max(predicted["peak"]["total"], predicted["peak"]["first"])
    assert steps + predicted["beside"] == found["memory"]["peak"]
    by_hand = planned(budget, overrides=[{"activations": "recompute"}])
    assert not any(row["activations_why"] for row in (layer["row"] for layer in by_hand["layers"]))
    refused = api.post("/api/v1/plans", json=job_spec(model=MODEL, training=batch, memory={"budget": "1KiB"}))
    assert refused.status_code == 422
    assert "memory.budget" in refused.text
    assert "below" in refused.text
    assert api.post("/api/v1/plans", json=job_spec(memory={"budget": "lots"})).status_code == 422


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A model of many equal blocks."""
    folder = tmp_path_factory.mktemp("deep")
    (folder / "net.py").write_text(
        "from torch import nn\n"
        "def build():\n"
        "    sizes = [64] + 8 * [256]\n"
        "    blocks = [nn.Sequential(nn.Linear(*pair), nn.Tanh()) for pair in zip(sizes, sizes[1:])]\n"
        "    return nn.Sequential(nn.Flatten(), *blocks, nn.Linear(256, 10))\n"
    )
    return {"model": {"entrypoint": "net:build", "directory": str(folder)}}


def largest(api: TestClient, room: str, **changes: Any) -> Any:
    answer = api.post(f"/api/v1/plans/largest-batch?memory={room}", json=job_spec(**changes))
    assert answer.status_code == 200, answer.text
    return answer.json()["largest"]


def test_the_largest_batch_of_each_way_fits_and_one_more_does_not(
    api: TestClient, deep: dict[str, Any]
) -> None:
    """As the prediction of a job with that batch has it, also while mechanisms learn."""
    room, twice = 12 * 2**20, TWICE
    found = largest(api, "12MiB", training=twice, **deep)
    assert found["memory"] == room
    ways = {way["way"]: way for way in found["ways"]}
    assert list(ways) == ["keep", "swap", "recompute", "budget"]
    assert 0 < ways["keep"]["samples"] < min(ways[name]["samples"] for name in ("swap", "recompute"))
    assert ways["keep"]["slow_down"] == 0
    for name, way in ways.items():
        assert way["global_batch"] == 4 * way["samples"]
        assert str(way["samples"] + 1) in way["limit"]
        assert str(way["samples"]) in found["text"]
        assert way["slow_down"] > 0 or name == "keep"
        if name == "budget":
            continue
        for samples, fits in ((way["samples"], True), (way["samples"] + 1, False)):
            batch = {**twice, "global_batch": 4 * samples}
            held = memory(api, training=batch, overrides=[{"activations": name}], **deep)
            first = held["peak"]["first"] + held["beside"]
            assert (max(held["total"], first) <= room) == fits
            if fits:
                assert way["peak"] == max(held["total"], first)
    mixed = ways["budget"]
    assert mixed["samples"] >= max(way["samples"] for way in ways.values())
    assert sum(mixed["layers"].values()) == 9
    batch = {**twice, "global_batch": 4 * mixed["samples"]}
    held = memory(api, training=batch, memory={"budget": mixed["peak"]}, **deep)
    assert max(held["total"], held["peak"]["first"] + held["beside"]) <= mixed["peak"] <= room

    # What was found ends each line, where it is drawn over memory.
    path = "/api/v1/plans/largest-batch/figure?memory=12MiB&theme=dark"
    answer = api.post(path, json=job_spec(training=twice, **deep))
    assert answer.status_code == 200, answer.text
    drawn = [trace for trace in answer.json()["data"] if trace["yaxis"] == "y"]
    assert [trace["name"].partition(" (")[0] for trace in drawn] == list(ways)
    for trace in drawn:
        way = ways[trace["name"].partition(" (")[0]]
        assert column(trace["y"])[-1] == way["samples"]
        assert column(trace["x"])[-1] == pytest.approx(way["peak"] / 2**20)


def test_where_not_one_sample_fits_nothing_is_drawn(api: TestClient, deep: dict[str, Any]) -> None:
    refused = api.post("/api/v1/plans/largest-batch/figure?memory=100KiB", json=job_spec(**deep))
    assert refused.status_code == 422
    assert "one sample alone takes" in refused.text


def test_what_a_job_says_of_its_layers_is_a_way_of_its_own(api: TestClient, deep: dict[str, Any]) -> None:
    overrides = [{"layers": "[12].*", "activations": "swap"}]
    found = largest(api, "12MiB", overrides=overrides, **deep)["ways"]
    assert [way["way"] for way in found] == ["as planned", "keep", "swap", "recompute", "budget"]
    assert found[0]["slow_down"] is None, "some of its layers keep theirs"
    assert found[1]["samples"] < found[0]["samples"] < found[2]["samples"]


ROOMS = {
    "0": "is not a size",
    "much": "is not a size",
    "100KiB": "one sample alone takes",
}


@pytest.mark.parametrize("room", ROOMS)
def test_a_memory_that_holds_nothing_is_refused(room: str, api: TestClient) -> None:
    answer = api.post(f"/api/v1/plans/largest-batch?memory={room}", json=job_spec(model=MODEL))
    assert answer.status_code == 422
    assert "memory" in answer.text
    assert ROOMS[room] in answer.text


def test_what_an_optimizer_has_on_a_disk_is_no_memory(api: TestClient, deep: dict[str, Any]) -> None:
    adam = {"name": "adam", "learning_rate": 0.01}
    here, away = (memory(api, optimizer={**adam, "offload": offload}, **deep) for offload in (False, True))
    assert (here["offloaded"], away["offloaded"] > 0) == (0, True)
    state = "optimizer state"
    assert here["declared"][state] - away["declared"][state] == away["offloaded"]
    assert here["total"] - away["total"] == away["offloaded"], "beside the step: it is a server's"
    assert "on disk: optimizer state" in away["text"]
    assert "on disk" not in here["text"]
