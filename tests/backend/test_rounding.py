"""The terminal rounds figures by one rule, which the page follows."""

from __future__ import annotations

from backend.rounding import SHARE, SPEED_UP, STEP_TIME, THROUGHPUT, TIMES_FASTEST
from backend.tables import Table
from engine.plan.units_of_measure import format_bytes, format_rate


def test_what_the_page_has_to_write_for_the_same_numbers() -> None:
    """Those of `frontend/src/lib/format.test.ts`."""
    times = (41.237, 0.125, 0.375, 1.005, 20_604.5, 7.0)
    assert [STEP_TIME.format(ms) for ms in times] == [
        "41.24 ms", "0.12 ms", "0.38 ms", "1.00 ms", "20604.50 ms", "7.00 ms",
    ]  # fmt: skip
    assert [THROUGHPUT.format(one) for one in (1605.26, 0.25, 0.75, 1143.0)] == [
        "1605.3",
        "0.2",
        "0.8",
        "1143.0",
    ]
    assert [SPEED_UP.format(one) for one in (1.125, 0.705, 1.3242)] == ["1.12x", "0.70x", "1.32x"]
    shares = (0.125, 0.375, 0.9374, 1.0)
    assert [SHARE.format(100 * one) for one in shares] == ["12 %", "38 %", "94 %", "100 %"]
    sizes = (0, 1023, 1126.4, 650_035, 243_860_896, 2**50)
    assert [format_bytes(one) for one in sizes] == [
        "0 B", "1023 B", "1.1 KiB", "634.8 KiB", "232.6 MiB", "1024.0 TiB",
    ]  # fmt: skip
    assert [format_rate(one) for one in (500, 8e6, 999_600_000, 1.5e9, 123_456_789)] == [
        "500 bit/s", "8 Mbit/s", "1 Gbit/s", "1.5 Gbit/s", "123 Mbit/s",
    ]  # fmt: skip
    assert [TIMES_FASTEST.format(one) for one in (1.0, 1.0625, 1.0006)] == ["1.000", "1.062", "1.001"]


def test_a_table_rounds_as_the_terminal_does() -> None:
    row = {"iteration_ms": 1041.2371, "samples_per_s": 16052.61, "speed_up": 1.32421, "times_fastest": 1.0}
    assert repr(Table([row])).splitlines()[-1].split() == ["1041.24", "16052.6", "1.32", "1.000"]
