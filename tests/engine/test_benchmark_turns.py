"""What benchmarks compare runs in turns: stopped programs take no part, and who fails is named."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from engine.benchmarks.harness.turns import Program, take_turns

SLICE_S = 0.2
STEPS = 800
"""Each of so little that one is whole within a slice also where the machine is busy."""
CODE = """
import json, sys, time
starts = []
for _ in range(int(sys.argv[1])):
    starts.append(time.time_ns())
    until = time.process_time() + 0.001
    while time.process_time() < until:
        pass
print("words of a library")
print(json.dumps(starts))
"""


def program(steps: int, code: str = CODE) -> Program:
    return Program(code=code, arguments=(str(steps),), tree=Path.cwd())


def test_every_round_has_an_iteration_of_each_within_its_slice() -> None:
    found = take_turns({"a": program(STEPS), "b": program(STEPS)}, warm_up=3, slice_s=SLICE_S)
    assert len(found["a"]) == len(found["b"]) > 1
    for times in found.values():
        assert all(one >= 1e6 for one in times), "each takes 0.001 s of processor time"


def test_a_program_that_fails_is_named() -> None:
    with pytest.raises(RuntimeError, match="b ended with status 3"):
        take_turns(
            {"a": program(STEPS), "b": program(1, "import sys; sys.exit(3)")}, warm_up=0, slice_s=SLICE_S
        )


def test_too_few_steps_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no round of slices of 0\.2 s has a whole step of each"):
        take_turns({"a": program(1), "b": program(1)}, warm_up=0, slice_s=SLICE_S)


def test_a_process_that_a_program_starts_is_stopped_with_it(tmp_path: Path) -> None:
    """As workers are: the child of the first notes the time, and has a gap wherever the second ran."""
    child = tmp_path / "times"
    code = f"""
import json, subprocess, sys, time
noting = "import time\\nwhile True: print(time.time_ns(), flush=True); time.sleep(0.005)"
with open({str(child)!r}, "w") as file, subprocess.Popen([sys.executable, "-c", noting], stdout=file) as process:
    starts = []
    for _ in range({STEPS}):
        starts.append(time.time_ns())
        until = time.process_time() + 0.001
        while time.process_time() < until:
            pass
    process.kill()
print(json.dumps(starts))
"""
    take_turns({"a": program(STEPS, code), "b": program(STEPS)}, warm_up=3, slice_s=SLICE_S)
    noted = [int(line) for line in child.read_text().split()]
    gaps = [after - before for before, after in pairwise(noted)]
    assert sum(gap >= 0.9 * SLICE_S * 1e9 for gap in gaps) >= 2
