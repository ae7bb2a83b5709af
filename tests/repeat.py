"""Runs the suite again and again: `python -m tests.repeat [--runs 10] [--busy 3]`, before an issue is called resolved.

A suite that fails once in ten runs tells nobody anything. The last `--busy` runs have a process beside them that
computes without a pause, as on a machine that others use. Exit status 1 where any run failed; its output is kept in the
folder that is named at the end.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def busy(wanted: bool) -> Iterator[None]:
    """A process that computes while the block runs."""
    if not wanted:
        yield
        return
    with subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) as loop:
        try:
            yield
        finally:
            loop.kill()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument(
        "--busy", type=int, default=3, help="how many of them, the last ones, beside a busy loop"
    )
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="trainyard-repeat-"))
    failed = 0
    for run in range(arguments.runs):
        beside = run >= arguments.runs - arguments.busy
        log, begun = folder / f"run-{run + 1}.log", time.monotonic()
        with busy(beside), log.open("w", encoding="utf-8") as output:
            done = subprocess.run(
                [sys.executable, "-m", "tests.suite"], stdout=output, stderr=subprocess.STDOUT, check=False
            )
        failed += done.returncode != 0
        lines = log.read_text(encoding="utf-8").splitlines()
        how = "passed" if done.returncode == 0 else "FAILED"
        where = " beside a busy loop" if beside else ""
        print(f"== run {run + 1} of {arguments.runs}{where}: {how} in {time.monotonic() - begun:.0f} s")
        lanes = next((n for n, line in enumerate(lines) if line.startswith("== the lanes")), len(lines) - 20)
        for line in lines[max(0, lanes) :]:
            print(f"   {line}", flush=True)
    print(f"{arguments.runs - failed} of {arguments.runs} runs passed; their output is in {folder}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
