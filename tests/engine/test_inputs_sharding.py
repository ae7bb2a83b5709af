"""Every sample of an epoch reaches exactly one worker and one micro-batch, whatever does not divide."""

import random
import threading
import weakref
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.inputs.loader import Loader
from engine.inputs.sharding import (
    epoch_order,
    global_batch_at,
    global_batches,
    micro_batches,
    shard,
)
from engine.inputs.source import TensorSource
from engine.plan.inputs import Input
from engine.plan.job import EvaluationSpec, TrainingSpec
from engine.plan.length import steps_per_epoch

SAMPLES = (1, 2, 5, 16, 31)
BATCHES = (1, 3, 7, 16, 40)
WORKERS = (1, 2, 3, 4, 7)
MICRO = (1, 2, 3)


@pytest.mark.parametrize("samples", SAMPLES)
def test_no_sample_is_lost_or_repeated(samples):
    for batch, workers, count in product(BATCHES, WORKERS, MICRO):
        seen = [
            index
            for indices in global_batches(samples, batch, seed=3, epoch=1)
            for rank in range(workers)
            for micro in micro_batches(shard(indices, rank, workers), count)
            for index in micro.tolist()
        ]
        assert sorted(seen) == list(range(samples))


def test_sizes_differ_by_at_most_one_and_every_worker_runs_the_same_passes():
    for total, workers, count in product(range(20), WORKERS, MICRO):
        parts = [shard(np.arange(total), rank, workers) for rank in range(workers)]
        sizes = [len(part) for part in parts]
        assert max(sizes) - min(sizes) <= 1
        assert sizes == sorted(sizes, reverse=True)
        assert np.array_equal(np.concatenate(parts), np.arange(total))
        assert all(len(micro_batches(part, count)) == count for part in parts)


def test_only_the_last_batch_is_smaller():
    for samples, batch in product(SAMPLES, BATCHES):
        sizes = [len(indices) for indices in global_batches(samples, batch, seed=0, epoch=0)]
        assert len(sizes) == steps_per_epoch(samples, batch)
        assert sizes[:-1] == [batch] * (len(sizes) - 1)
        assert 1 <= sizes[-1] <= batch


def test_a_resumed_job_finds_its_place():
    for batch in BATCHES:
        straight = [b for epoch in range(3) for b in global_batches(16, batch, seed=5, epoch=epoch)]
        assert all(np.array_equal(b, global_batch_at(i, 16, batch, seed=5)) for i, b in enumerate(straight))


def test_order_depends_on_seed_and_epoch_alone():
    assert np.array_equal(epoch_order(100, 1, 2), epoch_order(100, 1, 2))
    orders = {tuple(epoch_order(100, seed, epoch).tolist()) for seed in range(3) for epoch in range(3)}
    assert len(orders) == 9


def test_a_rank_beyond_the_workers_is_refused():
    with pytest.raises(ValueError, match="rank 2 of 2 workers"):
        shard(np.arange(4), 2, 2)


def loader_of(
    source: TensorSource,
    training: TrainingSpec,
    *,
    rank: int = 0,
    workers: int = 1,
    prefetch: int = 0,
    evaluation: EvaluationSpec | None = None,
) -> Loader:
    return Loader(
        source,
        training=training,
        evaluation=evaluation or EvaluationSpec(),
        rank=rank,
        workers=workers,
        device=torch.device("cpu"),
        input=Input(prefetch=prefetch),
        dtype=None,
        filler=False,
    )


def test_who_joins_later_gets_the_batches_of_the_steps_that_are_left() -> None:
    """Over epochs of 3 steps, the last one of which is small; and it is known how many samples a step has."""
    source = TensorSource(torch.arange(22).float(), torch.arange(22))
    training = TrainingSpec(steps=11, global_batch=9, seed=5)
    for rank in range(4):
        loader = loader_of(source, training, rank=rank, workers=4)
        parts = [[micro.targets.tolist() for micro in batch.micro_batches] for batch in loader]
        for first in range(12):
            left = list(loader.batches(first))
            assert [[micro.targets.tolist() for micro in batch.micro_batches] for batch in left] == parts[
                first:
            ]
            samples = sum(micro.samples for batch in left for micro in batch.micro_batches)
            assert loader.samples_of(rank, first, 11) == samples
        assert loader.samples_of(rank, 4, 4) == 0


def test_evaluations_are_due_after_steps_or_passes() -> None:
    """22 samples in batches of 9 are 3 steps of a pass."""
    source = TensorSource(torch.arange(22).float(), torch.arange(22))
    training = TrainingSpec(steps=11, global_batch=9)

    def due(**options: Any) -> list[int]:
        loader = loader_of(source, training, evaluation=EvaluationSpec(**options))
        return [steps for steps in range(1, 12) if loader.evaluation_due(steps)]

    assert due() == [3, 6, 9]
    assert due(every_epochs=None) == []
    assert due(every_steps=4) == [4, 8], "in place of every pass"
    assert due(every_steps=5, every_epochs=None) == [5, 10]


class Augmented(TensorSource):
    """Adds noise to what is read, and knows in which threads that was."""

    def __init__(self, noise: Callable[[], float]) -> None:
        super().__init__(torch.zeros(8), torch.arange(8))
        self.noise = noise
        self.threads: set[str] = set()

    def batch(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        self.threads.add(threading.current_thread().name)
        inputs, targets = super().batch(indices)
        return inputs + self.noise(), targets


@pytest.mark.parametrize(
    "noise", [lambda: float(torch.rand(())), random.random, np.random.rand], ids=["torch", "python", "numpy"]
)
def test_data_that_draw_random_numbers_are_read_between_the_passes(noise: Callable[[], float]) -> None:
    """Read ahead, they got other numbers every time: whether data or dropout drew first was chance."""
    source, quiet = Augmented(noise), Augmented(lambda: 0.0)
    for each, found in ((source, {"MainThread"}), (quiet, {"MainThread", "input"})):
        for _ in loader_of(each, TrainingSpec(steps=6, global_batch=4), prefetch=2):
            pass
        assert each.threads == found


class Held(TensorSource):
    """Knows how many of its batches somebody has."""

    def __init__(self) -> None:
        super().__init__(torch.zeros(64, 2), torch.arange(64))
        self.alive = 0
        self.changed = threading.Condition()

    def batch(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        inputs, targets = super().batch(indices)
        weakref.finalize(inputs, self.count, -1)
        self.count(1)
        return inputs, targets

    def count(self, more: int) -> None:
        with self.changed:
            self.alive += more
            self.changed.notify()


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_as_many_batches_are_there_as_a_plan_says(prefetch: int) -> None:
    """While one is in use."""
    source, most = Held(), 1 + Input(prefetch=prefetch).ahead
    for number, batch in enumerate(
        loader_of(source, TrainingSpec(steps=9, global_batch=4), prefetch=prefetch)
    ):
        assert batch.micro_batches[0].samples == 4
        if number == 3:
            with source.changed:
                assert source.changed.wait_for(lambda: source.alive == most, timeout=30)
            break
