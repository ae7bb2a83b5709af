"""Wherever batches are prepared they are the same, bit by bit; and no process outlives the worker."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from engine.errors import TrainingError, UserError
from engine.inputs.build import MapStyleSource
from engine.inputs.datasets.cifar10 import ImageBytesSource
from engine.inputs.drawn import drawn
from engine.inputs.images import ImageStage
from engine.inputs.loader import Loader, StepBatch
from engine.inputs.processes import Processes
from engine.inputs.source import Source, TensorSource
from engine.plan.inputs import Input
from engine.plan.job import EvaluationSpec, TrainingSpec
from tests.backend.executor_attempts import until

TRAINING = TrainingSpec(steps=9, global_batch=10, seed=5, micro_batches=2)
"""Of 22 samples: 3 steps of a pass, the last one small."""
PLACES = [
    Input(prefetch=3),
    Input(where="processes", processes=1, prefetch=0),
    Input(where="processes", processes=3, prefetch=2),
    Input(where="device", prefetch=0),
    Input(where="device", prefetch=2),
]


class Dictionaries(TensorSource):
    """Inputs in several tensors, one of them channels last, one of a length that differs, one without elements."""

    def batch(self, indices: np.ndarray) -> tuple[Any, Tensor]:
        inputs, targets = super().batch(indices)
        images = inputs[:, None, None, None].expand(-1, 3, 2, 2).clone(memory_format=torch.channels_last)
        longest = int(indices.max(initial=0)) + 1
        return {
            "images": images,
            "words": [targets[:, None].repeat(1, longest)],
            "mask": targets[:, None] % 2 > 0,
            "none": targets[:, None][:, :0],
            "rows": inputs[:, None].expand(-1, 4),
        }, targets


def images() -> ImageBytesSource:
    draw = np.random.default_rng(1)
    stage = ImageStage(
        size=8,
        scale=1,
        mean=(100.0, 120.0, 90.5),
        deviation=(50.0, 60.0, 70.25),
        padding=2,
        shift=2,
        flip=True,
    )
    pixels = draw.integers(0, 256, (22, 3, 8, 8), dtype=np.uint8)
    return ImageBytesSource(pixels, np.arange(22), stage)


SOURCES: dict[str, Callable[[], Source]] = {
    "tensors": lambda: TensorSource(torch.arange(22).double() / 7, torch.arange(22)),
    "dictionaries": lambda: Dictionaries(torch.arange(22) / 7, torch.arange(22)),
    "images": images,
    "items": lambda: MapStyleSource([(torch.full((3,), i / 7), i) for i in range(22)]),
}


@contextmanager
def loading(source: Source, given: Input, **changes: Any) -> Iterator[Loader]:
    """A loader whose processes, if it has some, end with the block."""
    processes = Processes(source, given.process_count) if given.process_count else None
    settings = {"training": TRAINING, "rank": 0, "workers": 2, **changes}
    try:
        yield Loader(
            source,
            evaluation=EvaluationSpec(),
            device=torch.device("cpu"),
            input=given,
            dtype=torch.float64,
            filler=True,
            processes=processes,
            **settings,
        )
    finally:
        if processes is not None:
            processes.close()


def batches(source: Source, given: Input, first: int = 0, **changes: Any) -> list[StepBatch]:
    with loading(source, given, **changes) as loader:
        return list(loader.batches(first))


def same(ours: list[StepBatch], theirs: list[StepBatch]) -> bool:
    def plain(batch: StepBatch) -> list[Any]:
        found: list[Any] = [
            batch.weight,
            batch.global_weight,
            batch.divisor,
            batch.counted,
            batch.global_samples,
        ]
        for micro in batch.micro_batches:
            found += [micro.samples, micro.scale]
            for leaf in tree_leaves((micro.inputs, micro.targets)):
                found += [leaf.dtype, leaf.shape, leaf.tolist()]
                found.append(
                    leaf.is_contiguous(memory_format=torch.channels_last) if leaf.ndim == 4 else None
                )
        return found

    return [plain(batch) for batch in ours] == [plain(batch) for batch in theirs]


@pytest.mark.parametrize(
    "given", PLACES, ids=lambda given: f"{given.where}-{given.process_count}-{given.prefetch}"
)
@pytest.mark.parametrize("name", SOURCES)
def test_batches_are_the_same_wherever_they_are_prepared(name: str, given: Input) -> None:
    """As where they are prepared when needed, in the thread that trains; from the first step and from a later one."""
    for rank, first in ((0, 0), (1, 4)):
        wanted = batches(SOURCES[name](), Input(prefetch=0), first, rank=rank)
        found = batches(SOURCES[name](), given, first, rank=rank)
        assert len(found) == 9 - first
        assert same(found, wanted)


def test_a_batch_is_not_written_to_when_the_next_ones_come() -> None:
    """Each has memory of its own, also where a process has long filled its slots again."""
    wanted = batches(SOURCES["tensors"](), Input(prefetch=0))
    with loading(SOURCES["tensors"](), Input(where="processes", processes=1, prefetch=0)) as loader:
        found = []
        for batch in loader.batches():
            batch.micro_batches[0].inputs.add_(1)  # nor does who trains write into a slot
            found.append(batch)
    for ours, theirs in zip(found, wanted, strict=True):
        assert torch.equal(ours.micro_batches[0].inputs, theirs.micro_batches[0].inputs + 1)


class Noisy(TensorSource):
    """Draws from all generators that a user's code has."""

    def batch(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        inputs, targets = super().batch(indices)
        return inputs + random.random() + np.random.rand() + torch.rand(len(inputs)), targets


class NoisyItems:
    """The same of a map-style data set."""

    def __len__(self) -> int:
        return 22

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.rand(2) + random.random() + np.random.rand(), index


def by_sample(found: list[list[StepBatch]]) -> list[tuple[int, list[float]]]:
    return sorted(
        (target, inputs)
        for batch in found
        for step in batch
        for micro in step.micro_batches
        if micro.scale
        for target, inputs in zip(micro.targets.tolist(), micro.inputs.tolist(), strict=True)
    )


def test_what_data_draw_in_processes_follows_from_the_sample() -> None:
    """Not from how many processes there are, nor from what the worker's own generators have drawn; and in each pass
    over the data something else. Of items, not from the number of workers either."""
    before = drawn()
    noisy = Noisy(torch.zeros(22), torch.arange(22))
    one, three = (batches(noisy, Input(where="processes", processes=count), rank=1) for count in (1, 3))
    assert same(one, three)
    inputs = [micro.inputs.tolist() for batch in one for micro in batch.micro_batches]
    assert len({str(values) for values in inputs if values}) == len([values for values in inputs if values])
    items = MapStyleSource(NoisyItems())
    alone = [batches(items, Input(where="processes", processes=2), rank=0, workers=1)]
    shared = [
        batches(items, Input(where="processes", processes=1), rank=rank, workers=2) for rank in range(2)
    ]
    assert by_sample(alone) == by_sample(shared)
    assert len({str(values) for _, values in by_sample(alone)}) == 66
    assert drawn() == before


def test_the_worker_learns_at_once_that_a_process_was_killed_and_how() -> None:
    with loading(SOURCES["tensors"](), Input(where="processes", processes=2)) as loader:
        found = loader.batches()
        next(found)
        assert loader.processes is not None
        os.kill(loader.processes.pids[1], signal.SIGKILL)
        with pytest.raises(
            TrainingError, match=r"process 1 of the 2 .* was killed by SIGKILL.*input\.processes"
        ):
            list(found)


class Broken(TensorSource):
    """Cannot read one sample."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(torch.zeros(22), torch.arange(22))
        self.error = error

    def batch(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        if 7 in indices:
            raise self.error
        return super().batch(indices)


class Closing(TensorSource):
    """As who makes a daemon does."""

    def batch(self, indices: np.ndarray) -> tuple[Any, Tensor]:
        os.closerange(3, 256)
        signal.pause()
        raise AssertionError("nobody wakes it")


def test_a_process_that_has_closed_its_pipe_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.inputs.processes._END_S", 0.2)
    source = Closing(torch.zeros(22, 2), torch.zeros(22))
    given = Input(where="processes", processes=1)
    with loading(source, given) as loader, pytest.raises(TrainingError, match="has closed its pipe to the"):
        next(loader.batches())


def test_what_fails_in_a_process_fails_in_the_worker() -> None:
    """An error that says what to do stays as it is; of any other it is said what and where it was."""
    given = Input(where="processes", processes=2)
    refused = UserError("data.options.directory", "/x/1.png", "is no readable image", "Remove it")
    with pytest.raises(UserError) as caught:
        batches(Broken(refused), given)
    assert caught.value.to_dict() == refused.to_dict()
    with pytest.raises(TrainingError, match="fail while they are prepared: ZeroDivisionError: by nothing"):
        batches(Broken(ZeroDivisionError("by nothing")), given)
    with pytest.raises(TrainingError, match="fail while they are prepared: SystemExit"):
        batches(Broken(SystemExit(3)), given)


def gone(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_no_process_outlives_the_loader_or_a_killed_worker() -> None:
    """Whether they rest or have not begun."""
    given = Input(where="processes", processes=3)
    with loading(SOURCES["tensors"](), given) as loader:
        next(loader.batches())
        assert loader.processes is not None
        pids = loader.processes.pids
        assert len(set(pids)) == 3
    assert gone(pids)
    ours, theirs = os.pipe()
    worker = os.fork()
    if not worker:
        try:
            with loading(SOURCES["tensors"](), given) as loader:
                next(loader.batches())
                assert loader.processes is not None
                os.write(theirs, " ".join(map(str, loader.processes.pids)).encode())
                signal.pause()
        finally:
            os._exit(1)
    pids = [int(pid) for pid in os.read(ours, 100).split()]
    assert len(pids) == 3
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)
    until(lambda: all(_ended(pid) for pid in pids), "the processes of a killed worker end")
    for pipe in (ours, theirs):
        os.close(pipe)


def _ended(pid: int) -> bool:
    """Gone, or nobody has asked how it ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_process_that_somebody_has_stopped_ends_with_the_loader_too() -> None:
    processes = Processes(TensorSource(torch.zeros(4, 2), torch.zeros(4)), 2)
    pids = processes.pids
    os.kill(pids[0], signal.SIGSTOP)
    processes.close()
    assert all(map(_ended, pids))
