"""swap: which bytes leave, how often, where to, and what is saved by that."""

from __future__ import annotations

import errno
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.axes.memory_options import SwapOptions
from engine.errors import TrainingError, UserError
from engine.liveness.measured import at_once, peak_bytes
from engine.memory.blocks import Asked
from engine.memory.disk import Disk, Stored, filesystem
from engine.state.computation import Computation
from engine.state.told import Untold
from tests.engine.test_liveness_peak import compared
from tests.memory import install, layers_of


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of what leaves."""
    sizes: list[int] = []
    out = Disk.out

    def noting(disk: Disk, values: Tensor) -> Stored:
        sizes.append(values.numel())
        return out(disk, values)

    monkeypatch.setattr(Disk, "out", noting)
    return sizes


def step(model: nn.Module, inputs: Any, memory: Any) -> None:
    """One training step without an update."""
    computation = Computation(memory=memory)
    with computation.training(inputs):
        loss = model(inputs).square().sum()
    with computation.backward():
        loss.backward()


class Shares(nn.Module):
    """What it computes is saved as a result, as an input, transposed, and as two views of a part."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(x @ self.linear.weight.t())
        halves = torch.cat([hidden[:, :32].sin(), hidden.t()[32:].t().cos()], 1)
        return self.linear(hidden) * hidden + halves + hidden.t().sin().t()


def test_memory_that_several_tensors_share_leaves_once_and_parameters_never(
    left: list[int], tmp_path: Path
) -> None:
    memory = install(Shares(), tmp_path, "swap", least_bytes=0)
    model = memory._mechanisms["swap"]._site.part  # type: ignore[attr-defined]
    step(model, torch.randn(32, 64), memory)
    size, part = 32 * 64 * 4, (31 * 64 + 32) * 4
    # What relu has made, its parts, and what the last linear has; neither input nor weights.
    assert sorted(left) == [part, part, size, size]
    memory.close()


def test_small_tensors_stay(left: list[int], tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1024), nn.Tanh(), nn.Linear(1024, 8))
    memory = install(model, tmp_path, "swap", least_bytes=4 * 4 * 1024)
    step(model, torch.randn(4, 8), memory)
    assert left == [4 * 4 * 1024]
    memory.close()


def test_the_file_has_no_name_and_its_room_is_used_again(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64))
    memory = install(model, tmp_path, "swap", least_bytes=0)
    disk = memory._mechanisms["swap"]._tier  # type: ignore[attr-defined]
    sizes = []
    for _ in range(3):
        step(model, torch.randn(32, 64), memory)
        sizes.append(os.fstat(disk._file.fileno()).st_size)
    assert sizes[0] > 0
    assert sizes == sizes[:1] * 3
    assert list(tmp_path.iterdir()) == []
    memory.close()


def test_what_is_written_to_while_it_stays_is_found_out_as_by_plain_pytorch(tmp_path: Path) -> None:
    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            hidden = self.linear(x).exp()
            hidden.mul_(2)
            return hidden

    model = Writes()
    for activations in ({"linear": "keep"}, {"linear": "swap"}):
        memory = install(model, tmp_path, activations, least_bytes=10**6)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            step(model, torch.randn(4, 8), memory)
        memory.close()


def test_what_is_written_to_before_it_has_left_is_found_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    disk = Disk(str(tmp_path), torch.device("cpu"), Untold())
    values = torch.arange(8, dtype=torch.uint8)
    write = Disk.write

    def late(self: Disk, payload: memoryview, offset: int) -> None:
        write(self, payload, offset)
        values.add_(1)

    monkeypatch.setattr(Disk, "write", late)
    with pytest.raises(TrainingError, match="written to after forward had saved it"):
        disk.out(values).bring()
    disk.close()


def test_a_full_disk_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(*arguments: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64))
    memory = install(model, tmp_path, "swap", least_bytes=0)
    with pytest.raises(
        TrainingError, match=r"could not be swapped to .*No space left on device\. Make room there"
    ):
        step(model, torch.randn(32, 64), memory)
    memory.close()


def test_a_folder_in_memory_is_known() -> None:
    assert filesystem("/dev/shm") == "tmpfs"
    assert filesystem("/proc/self") == "proc"


def rows(depth: int) -> nn.Sequential:
    """Equal blocks that save as many bytes each."""
    torch.manual_seed(0)
    return nn.Sequential(*(m for _ in range(depth) for m in (nn.Linear(128, 128), nn.Tanh())))


@pytest.mark.parametrize(("activations", "most"), [("swap", 0.5), ("recompute", 0.6)])
def test_the_peak_is_lower(activations: str, most: float, tmp_path: Path) -> None:
    """Of 16 layers that save 256 KiB each; by the allocator's own count, in a step that is not the first."""
    peaks = []
    for name in ("keep", activations):
        model, inputs = rows(16), torch.randn(512, 128)
        memory = install(model, tmp_path, name)
        if name == "swap":
            memory._mechanisms[name]._tier.later = at_once  # type: ignore[attr-defined]
        for _ in range(3):
            step(model, inputs, memory)
            model.zero_grad(set_to_none=True)
        peaks.append(peak_bytes(partial(step, model, inputs, memory)))
        memory.close()
    assert peaks[0] > 16 * 2**18
    assert peaks[1] < most * peaks[0]


class WritesUncounted(nn.Module):
    """What its second factor has computed with is another tensor than what its first one has, in the same memory."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Parameter(torch.ones(8))
        self.other = nn.Parameter(torch.ones(8))

    def forward(self, x: Tensor) -> Tensor:
        hidden = x.exp()
        first = hidden * self.one
        hidden.data.mul_(0.5)
        return first + hidden * self.other


def test_what_is_saved_again_after_an_uncounted_write_leaves_again(left: list[int], tmp_path: Path) -> None:
    """It had the values that had left before."""
    model, inputs = WritesUncounted(), torch.randn(4, 8)
    memory = install(model, tmp_path, "swap", least_bytes=0)
    step(model, inputs, memory)
    found = model.other.grad
    memory.close()
    model.zero_grad()
    model(inputs).square().sum().backward()
    assert found is not None
    assert model.other.grad is not None
    assert torch.equal(found, model.other.grad)
    assert left == [128, 128]


def equal_layers() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), *(m for _ in range(8) for m in (nn.Linear(64, 64), nn.Tanh())), nn.Linear(64, 10)
    )


def test_a_step_holds_as_much_more_as_is_on_its_way_back(tmp_path: Path) -> None:
    """By the allocator's own count, and as predicted: each tensor ahead is one more. Where it is the last that is still
    to come, a layer's gradient is not there yet."""

    def batch() -> tuple[Tensor, Tensor]:
        return torch.zeros(4096, 1, 8, 8), torch.zeros(4096, dtype=torch.int64)

    def peak(ahead: int) -> int:
        names = [layer.name for layer in layers_of(equal_layers()).layers]
        chosen = dict.fromkeys(names, Asked("swap", SwapOptions(ahead=ahead)))
        return compared(equal_layers, batch, chosen, tmp_path).total

    none, one, two = map(peak, (0, 1, 2))
    tensor, gradient = 4096 * 64 * 4, (64 * 64 + 64) * 4
    assert one - none == two - one == tensor - gradient


@pytest.mark.parametrize("ahead", [-1, 17])
def test_no_other_number_is_ahead(ahead: int) -> None:
    with pytest.raises(UserError, match=rf"^ahead = {ahead}: must be at"):
        SwapOptions(ahead=ahead)
