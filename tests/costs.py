"""What each test costs: `pytest --costs FILE` writes a line for each, with the processor seconds of all processes that
it used; `python -m tests.costs FILE...` prints the sums of files and the most expensive tests.

    python -m tests.suite --costs FILE        # of all lanes

What belongs to nobody else, a server that tests share or a gang of residents, is counted for the test that runs
meanwhile, and what tests share for the first one that asks for it. A processor's clock tells hundredths of a second,
each of which is counted once: sums are exact, and a test that takes less has none or one.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

COLLECTION = "collection"
"""What stands in place of a test for all that was used before the first one."""
_MOST = 40


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", metavar="FILE", help="append each test's processor seconds to this file")


def pytest_configure(config: pytest.Config) -> None:
    if path := config.getoption("--costs"):
        config.pluginmanager.register(Costs(Path(path).absolute()), "costs")


class Costs:
    """Writes them down."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.begin(os.getpid())

    def begin(self, root: int) -> None:
        """From now on count what a process and its descendants use."""
        self._root, self._before = root, 0

    def pytest_collection_finish(self) -> None:
        self._note(COLLECTION)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[object]:
        try:
            return (yield)
        finally:
            self._note(item.nodeid)

    def _note(self, what: str) -> None:
        now = ticks_below(self._root)
        with self._path.open("a", encoding="utf-8") as file:  # one write: others append to it, too
            file.write(f"{(now - self._before) / os.sysconf('SC_CLK_TCK'):.2f} {what}\n")
        self._before = now


def ticks_below(root: int) -> int:
    """Ticks of the processor's clock that a process and all its descendants have used, also those that have ended."""
    used: dict[int, int] = {}
    children: dict[int, list[int]] = defaultdict(list)
    for folder in os.listdir("/proc"):  # noqa: PTH208
        if folder.isdigit():
            try:
                stat = Path(f"/proc/{folder}/stat").read_text(encoding="utf-8", errors="replace")
            except OSError:  # it has ended
                continue
            fields = stat.rpartition(")")[2].split()
            children[int(fields[1])].append(int(folder))
            used[int(folder)] = sum(map(int, fields[11:15]))
    total, left = 0, [root]
    while left:
        pid = left.pop()
        total += used.get(pid, 0)
        left += children[pid]
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("files", type=Path, nargs="+")
    files, tests = Counter[str](), Counter[str]()
    for path in parser.parse_args().files:
        for line in path.read_text(encoding="utf-8").splitlines():
            seconds, _, test = line.partition(" ")
            files[test.partition("::")[0]] += float(seconds)  # type: ignore[assignment]
            tests[test] += float(seconds)  # type: ignore[assignment]
    print(f"{sum(files.values()):8.1f} all")
    for found in (files, tests):
        print()
        for name, seconds in found.most_common(None if found is files else _MOST):
            print(f"{seconds:8.1f} {name}")


if __name__ == "__main__":
    main()
