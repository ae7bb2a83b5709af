"""A log that is printed to without an end keeps its beginning and its end, and its readers are told what is missing."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from backend.executors.local_files import LocalFiles
from backend.executors.log_limit import BLOCK, LogLimit
from backend.services import logs

FIRST, LAST = 2 * BLOCK, 3 * BLOCK


@pytest.fixture
def log(tmp_path: Path) -> Path:
    found = tmp_path / "logs" / "worker-0.log"
    found.parent.mkdir()
    return found


def print_lines(log: Path, first: int, count: int) -> None:
    """Sixteen bytes each, the first of them numbered `first`."""
    with log.open("ab") as file:
        file.write(b"".join(b"line %010d\n" % number for number in range(first, first + count)))


def read_all(log: Path, limit: int) -> str:
    """Piece by piece, as who follows a log does."""
    files, text, offset = LocalFiles(str(log.parents[1])), "", 0
    while (found := logs.read(files, ["worker 0"], party=None, offset=offset, limit=limit)).text:
        text, offset = text + found.text, found.next_offset
    assert offset == found.size == log.stat().st_size
    return text


def test_the_middle_of_a_long_log_goes(log: Path) -> None:
    limit = LogLimit([log, log.with_name("worker-1.log")], first=FIRST, last=LAST, slack=BLOCK)
    limit.hold()
    lines = BLOCK // 16
    for number in range(0, 40 * lines, lines):
        print_lines(log, number, lines)
        limit.hold()
        assert log.stat().st_blocks * 512 <= FIRST + LAST + 3 * BLOCK
    said = read_all(log, 1000)
    parts = said.splitlines()
    missing = next(line for line in parts if line.startswith("["))
    count = int(missing[1:].partition(" bytes")[0].replace(",", ""))
    kept = [line for line in parts if line.startswith("line")]
    assert count + 16 * len(kept) == 40 * BLOCK
    assert kept[: 2 * lines] == [f"line {number:010d}" for number in range(2 * lines)]
    assert kept[-1] == f"line {40 * lines - 1:010d}"
    assert 3 * lines <= len(kept) - 2 * lines <= 4 * lines
    files = LocalFiles(str(log.parents[1]))
    assert b"".join(logs.whole(files, ["worker 0"], None)[1]).decode() == said
    end = logs.read(files, ["worker 0"], party=None, offset=-32, limit=1000)
    assert end.text.splitlines() == kept[-2:]


def test_a_short_log_stays_whole(log: Path) -> None:
    print_lines(log, 0, 5 * BLOCK // 16)
    LogLimit([log], first=FIRST, last=LAST, slack=BLOCK).hold()
    assert "[" not in read_all(log, 4096)


def test_a_log_that_is_cut_off_while_it_is_read_ends(log: Path) -> None:
    size = 3 * logs.PIECE_BYTES
    log.write_bytes(b"x" * size)
    _, pieces = logs.whole(LocalFiles(str(log.parents[1])), ["worker 0"], None)
    assert len(next(pieces)) == logs.PIECE_BYTES
    log.write_bytes(b"")
    assert list(itertools.islice(pieces, 10)) == []


def test_what_a_users_code_put_in_the_place_of_a_log_is_left_alone(log: Path) -> None:
    other = log.with_name("other")
    other.write_bytes(b"x" * 12 * BLOCK)
    log.symlink_to(other)
    limit = LogLimit([log], first=0, last=BLOCK, slack=0)
    limit.hold()
    log.unlink()
    log.mkdir()
    limit.hold()
    assert other.read_bytes() == b"x" * 12 * BLOCK
