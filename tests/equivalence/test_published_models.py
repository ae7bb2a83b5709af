"""Exact class, published networks made small: parallel branches, words through recurrent layers, and
transformers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.plan.job import JobSpec
from engine.plan.overrides import Override
from engine.plan.plan import Plan
from engine.telemetry.events import Kind
from tests.equivalence.test_memory import kinds
from tests.jobs import Run, distance, job, reference, succeed
from tests.traffic import counted_bytes, declared_bytes
from tests.words import write_text

pytestmark = pytest.mark.usefixtures("gang_lane")

WORDS = {"source_vocabulary": 50, "target_vocabulary": 20}
VOCABULARY = 320
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], float, dict[str, Any]]] = {
    # With width 2 and steps of 0.05, one rounding in the parameters grows to a difference of 0.16 between two runs of
    # one process; set so, to 3e-13.
    "inception-v3": (
        {"classes": 4, "width": 4, "dropout": 0.0},
        {
            "name": "synthetic",
            "options": {"shape": [3, 107, 107], "classes": 4, "samples": 24, "test_samples": 4},
        },
        1e-9,
        {
            "training": {"steps": 2, "global_batch": 12, "precision": "float64"},
            "optimizer": {"name": "sgd", "learning_rate": 1e-5, "options": {"momentum": 0.9}},
        },
    ),
    "sockeye-shape": (
        {**WORDS, "embedding": 12, "hidden": 8},
        {"name": "synthetic-tokens", "options": {**WORDS, "length": 6, "samples": 40, "test_samples": 7}},
        1e-12,
        {"training": {"steps": 6, "global_batch": 9, "precision": "float64"}},
    ),
    "lstm-lm": (
        {"vocabulary": VOCABULARY, "layers": 2, "hidden": 8},
        {"name": "text", "options": {"vocabulary": VOCABULARY, "steps": 6}},
        1e-12,
        {"training": {"steps": 6, "global_batch": 9, "precision": "float64"}},
    ),
    "gpt": (
        {"vocabulary": VOCABULARY, "context": 6, "layers": 2, "hidden": 8, "heads": 2},
        {"name": "text", "options": {"vocabulary": VOCABULARY, "steps": 6}},
        1e-12,
        {"training": {"steps": 6, "global_batch": 9, "precision": "float64"}},
    ),
    "vit": (
        {"classes": 10, "image": 8, "patch": 4, "channels": 1, "layers": 2, "hidden": 8, "heads": 2},
        {"name": "digits"},
        1e-12,
        {"training": {"steps": 6, "global_batch": 9, "precision": "float64"}},
    ),
    "resnet-digits": (
        {},
        {"name": "digits"},
        1e-9,
        {"training": {"steps": 3, "global_batch": 12, "precision": "float64"}},
    ),
}
"""Model -> its options, its data, the largest difference from one process, and how it is trained."""


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("text") / "lines.txt"
    write_text(path, 120)
    return str(path)


def spec_of(model: str, strategy: str, workers: int, text: str) -> JobSpec:
    options, data, _, training = CASES[model]
    if data["name"] == "text":
        data = {"name": "text", "options": {**data["options"], "paths": [text]}}
    return job(
        model={"name": model, "options": options},
        data=data,
        strategy={"name": strategy, "options": {"slice_size": 300} if strategy == "p3" else {}},
        cluster={"workers": workers},
        evaluation={"every_epochs": None, "at_end": True},
        **training,
    )


@pytest.mark.parametrize("strategy", ["hybrid", "model-parallel"])
@pytest.mark.parametrize("model", ["resnet-digits", "lstm-lm", pytest.param("vit", marks=pytest.mark.soak)])
def test_models_that_are_cut_equal_one_process(model: str, strategy: str, text: str, tmp_path: Path) -> None:
    """Cuts between residual blocks, recurrent layers and blocks of attention, and a loss of words behind them."""
    found = succeed(spec_of(model, strategy, 2, text), tmp_path)
    assert isinstance(found.launch.plan, Plan)
    assert found.launch.plan.edges
    shards = 1 if strategy == "model-parallel" else 2
    assert distance(found.state, reference(spec_of(model, "single", 1, text), shards)) <= CASES[model][2]
    assert counted_bytes(found) == declared_bytes(found)


@pytest.mark.parametrize("strategy", ["p3", "hybrid", "late-multiply"])
def test_recurrent_layers_in_pieces_of_time_equal_one_process(
    strategy: str, text: str, tmp_path: Path
) -> None:
    """With few states stored, to another order of summation; with all of them stored, bitwise."""

    def trained(**options: int) -> Run:
        spec = spec_of("lstm-lm", strategy, 2, text)
        override = Override(kind="recurrent", activations="through-time", activation_options=options)
        training = replace(spec.training, deterministic=True)
        return succeed(replace(spec, overrides=(override,), training=training), tmp_path / str(len(options)))

    few, all_of_them = trained(slots=2), trained(slots=50, piece_slots=1)
    assert distance(few.state, reference(spec_of("lstm-lm", "single", 1, text), 2)) <= CASES["lstm-lm"][2]
    assert all(torch.equal(few.state[name], all_of_them.state[name]) for name in few.state)
    assert Kind.RECOMPUTE in kinds(few)
    assert Kind.RECOMPUTE not in kinds(all_of_them)


@pytest.mark.parametrize(
    "model",
    [pytest.param(name, marks=[pytest.mark.soak] if name == "inception-v3" else []) for name in CASES],
)
def test_published_models_equal_one_process(model: str, text: str, tmp_path: Path) -> None:
    found = succeed(spec_of(model, "p3", 2, text), tmp_path)
    assert distance(found.state, reference(spec_of(model, "single", 1, text), 2)) <= CASES[model][2]
    # A share of the targets, of which a sample may have many.
    assert 0 <= found.summary()["test_accuracy"] <= 1


@pytest.mark.parametrize("model", ["gpt", "vit"])
def test_transformers_equal_one_process_in_a_ring(model: str, text: str, tmp_path: Path) -> None:
    """The tied table's gradient is whole when the pass has come to the first layer."""
    found = succeed(spec_of(model, "ring-allreduce", 2, text), tmp_path)
    assert distance(found.state, reference(spec_of(model, "single", 1, text), 2)) <= CASES[model][2]
    assert counted_bytes(found) == declared_bytes(found)
