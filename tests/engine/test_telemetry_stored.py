"""A batch stays readable by every later version, what a newer one adds is skipped, what no version wrote is refused.

`stored_batch_2026_11.tyb` was written by the version of that month, `stored_staleness_2026_11.tyb` when the table of
that name was new. They are never renewed: a later format gets an example of its own beside them.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.telemetry import batch as wire
from engine.telemetry.batch import MAX_RAW_BYTES, TABLES, BatchError, LinkInfo, declared, decode, encode
from engine.telemetry.batch_columns import ADDED, MAX_COLUMNS
from engine.telemetry.events import ALL_LAYERS, Clock, Direction, Kind, Track
from tests.engine.test_telemetry_batch import reseal, some_batch, split

STORED, STALENESS = (
    Path(__file__).with_name(f"stored_{name}_2026_11.tyb").read_bytes() for name in ("batch", "staleness")
)
COLUMNS: dict[str, dict[str, list[float]]] = {
    "events": {
        "step": [8, 8, 9],
        "layer": [0, 1, -1],
        "unit": [1, 2, -1],
        "kind": [Kind.FORWARD, Kind.SEND, Kind.INPUT],
        "track": [Track.COMPUTE, Track.SEND, Track.INPUT],
        "peer": [-1, 0, -1],
        "priority": [0, 3, 0],
        "queued": [-1, 2_400, -1],
        "start": [1_000, 2_600, 9_100],
        "end": [2_500, 9_000, 9_200],
        "bytes": [0, 65_536, 0],
        "clock": [Clock.CUDA, Clock.HOST, Clock.HOST],
    },
    "steps": {
        "step": [8, 9],
        "start": [1_000, 9_100],
        "end": [9_000, 9_900],
        "samples": [32, 32],
        "loss": [2.5, np.nan],
        "exposed": [700, 0],
        "compute": [6_000, 1],
        "input": [50, 2],
    },
    "metrics": {"name": [0, 1], "step": [8, 8], "time": [9_050, 9_060], "value": [0.75, -np.inf]},
    "samples": {
        "link": [1, 1],
        "time": [5_000, 10_005_000],
        "tx_bytes": [2**60, 2**60 + 4_096],
        "rx_bytes": [17, 18],
    },
    "totals": {
        "step": [8, 8],
        "layer": [0, 1],
        "kind": [Kind.FORWARD, Kind.WAIT],
        "track": [Track.COMPUTE, Track.COMPUTE],
        "count": [1, 2],
        "busy": [1_500, 700],
        "bytes": [0, 0],
        "exposed": [0, 700],
    },
    "bins": {
        "link": [0, 0, 1],
        "direction": [Direction.TX, Direction.TX, Direction.RX],
        "layer": [1, 1, ALL_LAYERS],
        "bin": [-1, 0, 1],
        "bytes": [40_000, 25_536, 1],
    },
}
"""What is in it."""


def test_a_stored_batch_of_2026_11_is_read_as_it_was_written() -> None:
    batch = decode(STORED)
    assert (batch.attempt, batch.party, batch.name, batch.sequence) == (7, 2, "worker 2", 41)
    assert (batch.metrics, batch.dropped, batch.dropped_steps) == (("test_accuracy", "loss"), 3, (5, 6))
    assert batch.final
    assert batch.links == (
        LinkInfo(interface="transport", host="a", rate_bps=None, rate_source="unknown", by_size=True),
        LinkInfo(interface="eth0", host="a", rate_bps=10**9, rate_source="shaped", shared=True),
    )
    assert set(batch.tables) == set(COLUMNS), "no table came from nowhere, and none was lost"
    for name, columns in COLUMNS.items():
        table = batch.table(name)
        assert table.dtype == TABLES[name]
        for column in TABLES[name].names or ():
            rows = len(columns["step" if "step" in columns else "link"])
            expected = columns.get(column) or [ADDED[name][column]] * rows
            assert np.array_equal(table[column], np.array(expected, table[column].dtype), equal_nan=True), (
                column
            )


def test_a_stored_batch_with_staleness_is_read_as_it_was_written() -> None:
    batch = decode(STALENESS)
    assert (batch.attempt, batch.party, batch.name, batch.sequence) == (8, 3, "server 0", 2)
    assert set(batch.tables) == {"staleness"}
    for column, values in {
        "bin": [-1, 5, 5],
        "layer": [0, 0, 2],
        "worker": [0, 1, 1],
        "staleness": [0, 2, 700],
        "count": [3, 40, 1],
    }.items():
        assert batch.table("staleness")[column].tolist() == values, column


def test_every_column_that_the_stored_batches_lack_has_a_default() -> None:
    headers = [split(body)[0] for body in (STORED, STALENESS)]
    tables = [table for header in headers for table in header["tables"]]
    there = {table["name"]: {name for name, _ in table["columns"]} for table in tables}
    assert there.keys() == TABLES.keys(), "a new table needs an example of its own"
    for name, columns in there.items():
        assert set(TABLES[name].names or ()) - columns <= ADDED.get(name, {}).keys(), name
    for name, defaults in ADDED.items():
        assert defaults.keys() <= set(TABLES[name].names or ()), name


def changed(body: bytes, change: Callable[[dict[str, Any], dict[str, list[bytes]]], None]) -> bytes:
    """The batch as another version writes it: `change` gets the header's tables and their packed columns, by name."""
    header, compressed = split(body)
    raw, offset, packed = zlib.decompress(compressed), 0, {}
    for table in header["tables"]:
        packed[table["name"]] = []
        for _, code in table["columns"]:
            size = table["rows"] * np.dtype(code).itemsize
            packed[table["name"]].append(raw[offset : offset + size])
            offset += size
    change({table["name"]: table for table in header["tables"]}, packed)
    columns = b"".join(column for columns in packed.values() for column in columns)
    return reseal(json.dumps(header).encode(), zlib.compress(columns))


@pytest.mark.parametrize("code", ["|u1", "<i2", "<u4", "<i8", "<f4", "<f8"])
@pytest.mark.parametrize("at", [0, 3, 99])
def test_what_a_newer_version_added_is_skipped(code: str, at: int) -> None:
    batch = some_batch()

    def add(tables: dict[str, Any], packed: dict[str, list[bytes]]) -> None:
        for name, table in tables.items():
            table["columns"].insert(at, ["temperature", code])
            packed[name].insert(at, bytes(range(7, 8)) * (table["rows"] * np.dtype(code).itemsize))

    newer = changed(encode(batch), add)
    again = decode(newer)
    for name, rows in batch.tables.items():
        assert again.tables[name].tobytes() == rows.tobytes(), name
    assert declared(newer)["bins"] > declared(encode(batch))["bins"], (
        "what is skipped is unpacked all the same"
    )


def test_columns_may_lie_in_another_order() -> None:
    batch = some_batch()

    def turn(tables: dict[str, Any], packed: dict[str, list[bytes]]) -> None:
        for name, table in tables.items():
            table["columns"].reverse()
            packed[name].reverse()

    again = decode(changed(encode(batch), turn))
    for name, rows in batch.tables.items():
        assert again.tables[name].tobytes() == rows.tobytes(), name


def test_a_column_that_this_version_adds_has_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    newer = np.dtype([*TABLES["steps"].descr, ("power", "<f8")])
    monkeypatch.setitem(TABLES, "steps", newer)
    with pytest.raises(BatchError, match="power is missing, which every version has"):
        decode(STORED)
    monkeypatch.setitem(ADDED, "steps", {"power": -1.5})
    batch = decode(STORED)
    assert batch.table("steps")["power"].tolist() == [-1.5, -1.5]
    assert batch.table("steps")["exposed"].tolist() == [700, 0]
    assert declared(STORED)["steps"] == 2 * newer.itemsize, "room for the rows as they are here"


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        (lambda c: [*c, ["more", "V1000000"]], "has no type of"),
        (lambda c: [*c, ["more", "O"]], "has no type of"),
        (lambda c: [*c, ["more", ">i8"]], "has no type of"),
        (lambda c: [*c, ["more", "<i8", "<i8"]], "has no type of"),
        (lambda c: [*c, ["more", 8]], "has no type of"),
        (lambda c: [*c, [["more"], "<i8"]], "has no type of"),
        (lambda c: [*c, "more"], "has no type of"),
        (lambda c: [*c, c[0]], "or is there twice"),
        (lambda c: [*c, *([f"more {i}", "<i8"] for i in range(MAX_COLUMNS))], f"at most {MAX_COLUMNS}"),
        (lambda c: {"step": "<i4"}, f"no list of at most {MAX_COLUMNS}"),
        (lambda c: [], "step is missing, which every version has"),
        (lambda c: [["step", "<i8"], *c[1:]], "step is <i8 there, and <i4 here"),
        (lambda c: [*c, ["more", "<i8"]], "the header says"),
    ],
)
def test_columns_that_no_version_writes_are_refused(columns: Callable[[Any], Any], reason: str) -> None:
    header, compressed = split(encode(some_batch()))
    header["tables"][0]["columns"] = columns(header["tables"][0]["columns"])
    with pytest.raises(BatchError, match=reason):
        decode(reseal(json.dumps(header).encode(), compressed))


def test_columns_that_are_skipped_count_as_those_that_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    header, _ = split(encode(some_batch()))
    table = header["tables"][0]
    table["columns"] += [[f"more {i}", "<i8"] for i in range(40)]
    table["rows"] = MAX_RAW_BYTES // (TABLES["events"].itemsize + 40 * 8) + 1
    assert table["rows"] * TABLES["events"].itemsize < MAX_RAW_BYTES
    monkeypatch.setattr(wire.zlib, "decompressobj", None)  # it is refused before anything is unpacked
    with pytest.raises(BatchError, match="Send smaller batches"):
        decode(reseal(json.dumps(header).encode(), b""))
