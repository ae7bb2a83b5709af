"""The allocator: what a step frees, the next one finds again, and nobody's own settings are overruled."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_STEPS = """
import os, resource, sys
from importlib import import_module
from engine.allocator import keep_freed_memory
ones = import_module(sys.argv[1]).ones
def step():
    held = [ones(2**18 if sys.argv[1] == "numpy" else 2**19) for _ in range(20)]  # 40 MiB in blocks of 2
for how in sys.argv[2:]:
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
"""Prints, for each argument after the first, how often a step met a page that the system had to give. Each has a copy
of one process, which has imported once for all what the first argument names: torch, or numpy, which asks for memory in
the same way and begins in a tenth of the time."""
PAGES = 20 * 2**21 // os.sysconf("SC_PAGE_SIZE")


def faults(whose: str, *how: str, **environment: str) -> list[int]:
    """Of a step with tensors of torch or arrays of numpy, in a process of its own for each `how`."""
    found = subprocess.run(
        [sys.executable, "-c", _STEPS, whose, *how],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        check=True,
        capture_output=True,
        text=True,
    )
    return [int(line) for line in found.stdout.split()]


def test_a_step_finds_the_memory_of_the_one_before() -> None:
    (kept,) = faults("torch", "keep")
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
    kept, left = faults("numpy", "keep", "leave", **{name: value})
    assert kept > left / 2
    assert left > PAGES / 2, "what is freed goes back"
