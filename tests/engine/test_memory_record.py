"""What memory mechanisms do, as events of a worker."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from engine.errors import TrainingError
from engine.instrumentation.module_calls import before_forward
from engine.memory.disk import Disk
from engine.state.computation import Computation
from engine.state.recording import Recording
from engine.state.whereabouts import Spot, Whereabouts, read
from engine.telemetry.batch import decode
from engine.telemetry.events import EVENT, NONE, Kind, Track
from engine.telemetry.recorder import Recorder
from tests.memory import install

SAMPLES, WIDTH = 32, 64
ACTIVATION = SAMPLES * WIDTH * 4


class Watched:
    """A worker's recording of a model of three layers."""

    def __init__(
        self, folder: Path, activations: str, between: nn.Module | None = None, **options: int
    ) -> None:
        """`between`: what lies between its last two layers."""
        self.recorder = Recorder(0, "worker 0", time.monotonic_ns, None, flush_s=3600)
        self.recording = Recording(self.recorder, time.monotonic_ns)
        between = between or nn.Tanh()
        self.model = nn.Sequential(
            nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), between, nn.Linear(WIDTH, 1)
        )
        memory = install(self.model, folder, activations, self.recording.memory, **options)
        self.computation = Computation(memory=memory)
        self.forward = False

    def step(self, number: int, behind: Callable[[], object] = lambda: None) -> None:
        """`behind`: what happens behind forward."""
        recording = self.recording
        recording.begin_step(number)
        with self._entering():
            recording.begin_pass()
            with self.computation.training(inputs := torch.randn(SAMPLES, WIDTH)):
                loss = self.model(inputs).sum()
            recording.end_forward()
        behind()
        recording.begin_pass(backward=True)
        with self.computation.backward():
            loss.backward()
        recording.end_backward()
        recording.end_step(samples=SAMPLES, loss=0.0, end_ns=time.monotonic_ns())

    def events(self, step: int) -> np.ndarray:
        """Of one step; nothing is recorded any more."""
        self.computation.close()
        self.recording.close()
        self.recorder.close()
        found = np.concatenate(
            [np.empty(0, EVENT), *(decode(b).table("events") for b in self.recorder.memory)]
        )
        return found[found["step"] == step]

    @contextmanager
    def _entering(self) -> Iterator[None]:
        layers = [module for module in self.model if isinstance(module, nn.Linear)]
        told = [
            before_forward(layer, lambda index=index: self.recording.entering(index))
            for index, layer in enumerate(layers)
        ]
        yield
        for each in told:
            each.remove()


class Fails(nn.Module):
    """As soon as there is a file."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def forward(self, values: Tensor) -> Tensor:
        if os.path.exists(self.path):  # noqa: PTH110 - a path's own code would be a part of the block
            raise MemoryError
        return values.tanh()


def of(events: np.ndarray, kind: Kind, track: Track) -> np.ndarray:
    return events[(events["kind"] == kind) & (events["track"] == track)]


def test_bytes_that_leave_and_come_back_are_told_with_their_layer(tmp_path: Path) -> None:
    watched = Watched(tmp_path, "swap", least_bytes=1)
    watched.step(0)
    events = watched.events(0)
    out, back = of(events, Kind.SWAP_OUT, Track.MEMORY), of(events, Kind.SWAP_IN, Track.MEMORY)
    assert sorted(out["layer"]) == sorted(back["layer"]) == [0, 1], "the outputs of both Tanh"
    assert set(out["bytes"]) == set(back["bytes"]) == {ACTIVATION}
    for moved in (out, back):
        assert (moved["queued"] <= moved["start"]).all()
        assert (moved["start"] < moved["end"]).all()
    assert watched.recording.memory.transit.bytes() == 0
    assert not len(of(events, Kind.SAVED, Track.MEMORY)), "nothing stays but what is held in any case"


def test_what_is_waited_for_is_no_part_of_backward(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    read = Disk.read

    def slowly(self: Disk, values: memoryview, offset: int) -> None:
        time.sleep(0.02)
        read(self, values, offset)

    monkeypatch.setattr(Disk, "read", slowly)
    watched = Watched(tmp_path, "swap", least_bytes=1)
    watched.step(0)
    events = watched.events(0)
    waits = of(events, Kind.SWAP_IN, Track.COMPUTE)
    assert len(waits)
    assert set(waits["layer"]) <= {0, 1}
    computed = events[(events["track"] == Track.COMPUTE) & (events["kind"] == Kind.BACKWARD)]
    for wait in waits:
        assert ((computed["end"] <= wait["start"]) | (computed["start"] >= wait["end"])).all()
    steps = np.concatenate([decode(body).table("steps") for body in watched.recorder.memory])
    waited = (waits["end"] - waits["start"]).sum()
    assert steps["compute"][0] <= steps["end"][0] - steps["start"][0] - waited


def test_what_is_too_small_to_leave_is_saved_here(tmp_path: Path) -> None:
    watched = Watched(tmp_path, "swap", least_bytes=ACTIVATION + 1)
    watched.step(0)
    saved = of(watched.events(0), Kind.SAVED, Track.MEMORY)
    assert {int(row["layer"]): int(row["bytes"]) for row in saved} == {0: ACTIVATION, 1: ACTIVATION}
    assert (saved["start"] == saved["end"]).all()


def test_a_second_forward_says_what_it_saves(tmp_path: Path) -> None:
    watched = Watched(tmp_path, "recompute", neighbours=5)
    watched.step(0)
    events = watched.events(0)
    (again,) = of(events, Kind.RECOMPUTE, Track.COMPUTE)
    assert (again["layer"], again["bytes"]) == (0, 2 * ACTIVATION), "both Tanh; the input was there"
    (saved,) = of(events, Kind.SAVED, Track.MEMORY)
    assert (saved["layer"], saved["bytes"]) == (0, ACTIVATION), "the block's input"


def test_where_a_worker_is_stays_known_when_it_fails(tmp_path: Path) -> None:
    full = tmp_path / "full"
    watched = Watched(tmp_path, "recompute", Fails(str(full)), neighbours=5)
    recording = watched.recording
    recording.whereabouts = Whereabouts(tmp_path / "where")
    assert recording.where == Spot("before the first step", NONE, 0)
    watched.step(0)
    assert recording.where == Spot("between two steps", NONE, 0)
    with pytest.raises(TrainingError, match="failed when it was computed again"):
        watched.step(1, behind=full.touch)
    assert recording.where == Spot("in a second forward", 0, 1)
    assert read((tmp_path / "where").read_bytes()) == recording.where
    assert read(b"") is None
    watched.events(1)


def test_a_device_that_counts_is_asked_before_each_layer(tmp_path: Path) -> None:
    watched = Watched(tmp_path, "keep")
    counted = iter((1_000, 1_010, 1_110, 1_100, 1_400))  # before the pass, at each layer, and at its end
    watched.recording.memory.allocated = counted.__next__
    watched.step(0)
    watched.step(1)  # less than a second later, nobody asks
    events = watched.events(0)
    saved = of(events, Kind.SAVED, Track.MEMORY)
    assert {int(row["layer"]): int(row["bytes"]) for row in saved} == {NONE: 10, 0: 100, 2: 300}
