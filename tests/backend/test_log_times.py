"""When a log's lines were written: rows of time and size, and which of them a piece of the log needs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from backend.executors.log_times import ROW, LogTimes, between, name_of, rows


def test_a_log_that_grows_gets_a_row_a_second_and_a_last_one(tmp_path: Path) -> None:
    log = tmp_path / "worker-0.log"
    times = LogTimes([log, tmp_path / "worker-1.log"])
    times.note(1_000)
    file = tmp_path / name_of(log.name)
    assert not file.exists(), "it has not begun"
    for now, size in ((2_000, 5), (2_200, 7), (3_100, 9), (9_000, 9)):
        log.write_bytes(b"x" * size)
        times.note(now)
    log.write_bytes(b"x" * 12)
    times.note(9_100)
    times.note(9_200, last=True)
    assert rows(file.read_bytes()).tolist() == [[2_000, 5], [3_100, 9], [9_100, 12]]


def test_what_a_users_code_put_in_the_place_of_the_times_is_left_alone(tmp_path: Path) -> None:
    log, other = tmp_path / "worker-0.log", tmp_path / "other"
    other.write_text("mine")
    (tmp_path / name_of(log.name)).symlink_to(other)
    log.write_text("hello")
    LogTimes([log]).note(1_000)
    assert other.read_text() == "mine"


def test_times_that_nobody_can_have_written_are_left_out() -> None:
    written = ((2**63 + 5, 3), (1_000, 5), (8_640_000_000_000_001, 6), (2_000, 2**63), (3_000, 7))
    content = b"".join(ROW.pack(*row) for row in written) + b"torn"
    assert rows(content).tolist() == [[1_000, 5], [3_000, 7]]


def test_a_piece_has_the_rows_that_reach_its_bytes() -> None:
    found = np.array([[100, 10], [200, 20], [300, 30], [400, 40]])
    assert between(found, 0, 40, 10).tolist() == found.tolist()
    assert between(found, 10, 25, 10).tolist() == [[200, 20], [300, 30]]
    assert between(found, 30, 30, 10).tolist() == []
    assert between(found, 40, 50, 10).tolist() == [], "not looked at since"
    assert between(found, 0, 40, 2).tolist() == [[200, 20], [400, 40]], "evenly chosen, to the end"
    assert between(found[:0], 0, 40, 2).tolist() == []
