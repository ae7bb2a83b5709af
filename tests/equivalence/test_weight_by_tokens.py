"""Exact class, losses weighted by tokens: sentences of different lengths, so workers have different numbers of words.

One process that takes the whole batch at once is a second reference: padding, of which it has more, counts nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.errors import UserError
from engine.inputs.build import load_dataset
from engine.inputs.sharding import global_batch_at, shard
from engine.inputs.task import weight
from engine.plan.job import JobSpec
from tests.equivalence.against_plain import USER_CODE
from tests.jobs import describe, distance, job, reference, run, succeed
from tests.words import write_text

VOCABULARY = 320
OPTIONS: dict[str, dict[str, Any]] = {
    "p3": {"slice_size": 300},
    "ring-allreduce-overlap": {"bucket_bytes": 8000},
    "late-multiply": {"bucket_bytes": 8000, "layers": "all"},
    "ddp": {"bucket_bytes": 8000},
}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("text") / "lines.txt"
    write_text(path, 150)
    return str(path)


def spec_of(text: str, strategy: str, workers: int, **training: Any) -> JobSpec:
    return job(
        model={"name": "attention-nmt", "options": {"vocabulary": VOCABULARY, "layers": 2, "hidden": 8}},
        data={
            "name": "text-pairs",
            "options": {"paths": [text], "vocabulary": VOCABULARY, "length": 16},
        },
        strategy={"name": strategy, "options": OPTIONS.get(strategy, {})},
        cluster={"workers": workers},
        evaluation={"every_epochs": None, "at_end": True},
        training={"steps": 6, "global_batch": 8, "precision": "float64", **training},
    )


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(
    ("strategy", "workers", "micro_batches"),
    [("p3", 2, 1), ("p3", 3, 2), ("ring-allreduce-overlap", 2, 2), ("late-multiply", 3, 2), ("ddp", 2, 2)],
)
def test_sentences_of_different_lengths_equal_one_process(
    strategy: str, workers: int, micro_batches: int, text: str, tmp_path: Path
) -> None:
    found = succeed(spec_of(text, strategy, workers, micro_batches=micro_batches), tmp_path)
    assert distance(found.state, reference(spec_of(text, "single", 1), workers)) <= 1e-12
    assert distance(found.state, reference(spec_of(text, "single", 1), 1)) <= 1e-12
    assert 0 <= found.summary()["test_accuracy"] <= 1  # a share of the words, not of the padding


def test_the_workers_of_every_step_have_different_numbers_of_words(text: str) -> None:
    """Otherwise the cases above would prove nothing about weights."""
    spec = spec_of(text, "p3", 2)
    train, training = load_dataset(spec.data).train, spec.training
    uneven = 0
    for step in range(training.steps or 0):
        indices = global_batch_at(step, len(train), training.global_batch, training.seed)
        first, second = (weight(train.batch(shard(indices, rank, 2))[1]) for rank in range(2))
        uneven += first != second
    assert uneven == training.steps


def test_a_description_is_made_with_the_longest_sentences(text: str) -> None:
    spec = spec_of(text, "single", 1)
    assert describe(spec).layer("decoder.1").forward_flops == 16 * 2 * 4 * 8 * (8 + 8)
    assert describe(spec).samples == len(load_dataset(spec.data).train)


def test_a_model_with_fewer_words_than_the_data_is_refused(text: str) -> None:
    spec = spec_of(text, "single", 1)
    spec.model.options["vocabulary"] = VOCABULARY - 1
    with pytest.raises(UserError, match=r"gives scores for 319 classes .* the data have 320"):
        describe(spec)


def own(data: str) -> JobSpec:
    """Map-style data sets of equal shape, in which some targets do not count."""
    return job(
        model={"entrypoint": "padded:model", "directory": str(USER_CODE)},
        data={"entrypoint": f"padded:{data}", "directory": str(USER_CODE)},
        strategy={"name": "p3", "options": OPTIONS["p3"]},
        cluster={"workers": 2},
        training={"steps": 4, "global_batch": 7, "precision": "float64"},
    )


@pytest.mark.usefixtures("gang_lane")
def test_a_users_own_data_count_their_words_themselves(tmp_path: Path) -> None:
    spec = own("counted")
    assert distance(succeed(spec, tmp_path).state, reference(spec, 1)) <= 1e-12


@pytest.mark.usefixtures("gang_lane")
def test_ignored_targets_that_nobody_counts_end_the_job(tmp_path: Path) -> None:
    end = run(own("uncounted"), tmp_path).end
    assert end.status == "failed"
    assert "target_count" in end.reason
