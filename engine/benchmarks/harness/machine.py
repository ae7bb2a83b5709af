"""The machine and the code that a figure comes from, and how busy the machine was meanwhile.

Nothing here loads torch: the service's benchmarks use it, too.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parents[3]
_IDLE = (3, 4)  # columns of /proc/stat's `cpu` line: idle and iowait
_GUEST = slice(8, 10)  # already counted in user and nice
GIT_S = 10.0
"""How long git may take to answer."""
MOST_CPU = 0.7
"""Of all cores: above it, it is this machine that is measured."""
BUSY = (
    f"CPU is the highest of the runs; BUSY marks more than {MOST_CPU:.0%}, where this machine, not what is compared, "
    "may have set the pace."
)
"""For the method of what shows `cpu_use`."""


def hardware() -> dict[str, str | int | float]:
    """Cores, CPU, memory in bytes, kernel, Python, torch, and the load of the last minute."""
    return {
        "cores": os.cpu_count() or 1,
        "cpu": _first(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo")) or platform.processor(),
        "memory_bytes": int(_first(r"^MemTotal:\s*(\d+)", Path("/proc/meminfo")) or 0) * 1024,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "torch": _version("torch"),
        "load_before": round(os.getloadavg()[0], 2),
    }


def commit(root: Path = ROOT) -> str:
    """The commit checked out in `root`; ` + changes` where files differ from it (written results do not count);
    `unknown` outside of a checkout, also where the program is installed somewhere below another one's, and where
    git does not answer."""
    try:
        if Path(_git(root, "rev-parse", "--show-toplevel")).resolve() != root.resolve():
            return "unknown"
        head = _git(root, "rev-parse", "--short=12", "HEAD")
        changed = _git(root, "status", "--porcelain", "--", ".", ":!*/results/*")
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return f"{head} + changes" if changed else head


def command() -> str:
    """What was typed, as `python -m module arguments`."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    program = f"-m {spec.name}" if spec else sys.argv[0]
    return shlex.join(["python", *program.split(), *sys.argv[1:]])


def cpu_use(shares: Iterable[float]) -> str:
    """The highest of several runs' shares of all cores (0 to 1), marked where it is above MOST_CPU."""
    highest = max(shares)
    return f"{highest:.0%}" + (" BUSY" if highest > MOST_CPU else "")


def parse_stat(text: str) -> tuple[int, int]:
    """(busy, total) ticks of all cores together, since boot, from the text of /proc/stat."""
    fields = next(line for line in text.splitlines() if line.startswith("cpu ")).split()[1:]
    ticks = [int(field) for field in fields]
    total = sum(ticks) - sum(ticks[_GUEST])
    return total - sum(ticks[index] for index in _IDLE), total


class CpuMeter:
    """Samples the whole machine's CPU use (every process, every core) while it is entered."""

    def __init__(self, every_s: float = 0.1) -> None:
        self._every_s = every_s
        self._samples: list[tuple[int, int, int]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="cpu meter", daemon=True)

    def share(self, start_unix_ns: int = 0, end_unix_ns: int = 2**63) -> float:
        """Busy share of all cores (0 to 1) between two times; of the whole while where they are left out."""
        inside = [s for s in self._samples if start_unix_ns <= s[0] <= end_unix_ns]
        if len(inside) < 2:  # shorter than a sample: take those around it
            inside = [self._samples[0], self._samples[-1]]
        (_, busy, total), (_, busy_after, total_after) = inside[0], inside[-1]
        return (busy_after - busy) / max(total_after - total, 1)

    def _loop(self) -> None:
        while not self._stop.wait(self._every_s):
            self._sample()

    def _sample(self) -> None:
        self._samples.append((time.time_ns(), *parse_stat(Path("/proc/stat").read_text(encoding="ascii"))))

    def __enter__(self) -> CpuMeter:
        self._sample()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._sample()


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "--no-optional-locks", *arguments]  # whoever works in the checkout is not disturbed
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True, timeout=GIT_S)
    return done.stdout.strip()


def _first(pattern: str, path: Path) -> str:
    found = re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE) if path.exists() else None
    return found[1].strip() if found else ""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
