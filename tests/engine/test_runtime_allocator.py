"""The allocator: what a step frees, the next one finds again, and nobody's own settings are overruled."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_STEPS = """
import os, resource, sys
from engine.gang.allocator import keep_freed_memory
import torch
torch.set_num_threads(1)
def step():
    held = [torch.ones(2**20) for _ in range(10)]  # 40 MiB in blocks of 4
for how in sys.argv[1:]:
    if os.fork():
        os.wait()
        continue
    if how == "keep":
        keep_freed_memory()
    for _ in range(3):
        step()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        step()
    print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 5)
    break
"""
"""Prints, for each of its arguments, how often a step met a page that the system had to give. Each has a copy of one
process, which has imported torch once for all."""
PAGES = 10 * 2**22 // os.sysconf("SC_PAGE_SIZE")


def faults(*how: str, **environment: str) -> list[int]:
    """Of a step, in a process of its own for each `how`."""
    found = subprocess.run(
        [sys.executable, "-c", _STEPS, *how],
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
        text=True,
    )
    return [int(line) for line in found.stdout.split()]


def test_a_step_finds_the_memory_of_the_one_before() -> None:
    (kept,) = faults("keep")
    assert kept < PAGES / 100


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MALLOC_TRIM_THRESHOLD_", "65536"),
        ("MALLOC_MMAP_THRESHOLD_", "65536"),
        ("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=65536"),
    ],
)
def test_settings_of_the_users_own_stay(name: str, value: str) -> None:
    """Whoever wants freed memory to go back at once has it so."""
    kept, left = faults("keep", "leave", **{name: value})
    assert kept > left / 2
