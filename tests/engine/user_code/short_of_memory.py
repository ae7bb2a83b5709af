"""A model whose worker gets no more memory once training has begun, and then asks for much."""

from __future__ import annotations

import resource
from multiprocessing import current_process
from pathlib import Path

from torch import Tensor, nn

ROOM = 64 * 2**20
WIDTH = 2**17


class Limits(nn.Module):
    """From here on the process has ROOM more."""

    def forward(self, inputs: Tensor) -> Tensor:
        if current_process().name.startswith("worker"):
            status = Path("/proc/self/status").read_text()
            size = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmSize"))
            resource.setrlimit(resource.RLIMIT_AS, (size * 1024 + ROOM,) * 2)
        return inputs


def build() -> nn.Module:
    """The output of its first layer takes 512 KiB of a sample."""
    return nn.Sequential(
        nn.Flatten(), Limits(), nn.Linear(64, WIDTH), nn.AvgPool1d(WIDTH // 10), nn.Linear(10, 10)
    )
