"""A batch survives the trip exactly, is small, and anything else is refused with a reason."""

from __future__ import annotations

import json
import random
import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest

from engine.telemetry.batch import MAX_RAW_BYTES, Batch, BatchError, LinkInfo, check, decode, encode
from engine.telemetry.batch import _digest as digest
from engine.telemetry.events import EVENT, LINK_BIN, LINK_SAMPLE, METRIC, STEP, TOTAL, Kind, Track


def some_events(rows: int, seed: int = 0) -> np.ndarray:
    """Events as a worker makes them: slices of layers, one after another, with jitter."""
    random = np.random.default_rng(seed)
    events = np.zeros(rows, EVENT)
    index = np.arange(rows)
    events["step"] = index // 200
    events["layer"] = index // 10 % 20
    events["unit"] = index % 10
    events["kind"] = random.integers(0, len(Kind), rows)
    events["track"] = random.integers(0, len(Track), rows)
    events["peer"] = random.integers(-1, 3, rows)
    events["priority"] = events["layer"]
    events["start"] = index * 100_000 + random.integers(0, 20_000, rows)
    events["end"] = events["start"] + random.integers(30_000, 80_000, rows)
    waited = events["start"] - random.integers(0, 9000, rows)
    events["queued"] = np.where(random.random(rows) < 0.5, waited, -1)
    events["bytes"] = 200_000
    return events


def some_batch() -> Batch:
    metric = np.array([(0, 5, 77, 0.25), (1, 5, 78, np.inf)], METRIC)
    total = np.array([(1, 2, 3, 1, 4, 5, 6, 7)], TOTAL)
    return Batch(
        attempt=3,
        party=1,
        name="worker 1",
        sequence=9,
        metrics=("loss", "accuracy"),
        links=(LinkInfo(interface="eth0", host="a", rate_bps=10**9, rate_source="shaped"),),
        dropped=2,
        final=True,
        tables={
            "events": some_events(1000),
            "steps": np.array([(4, 10, 20, 32, np.nan, 3, 4, 5)], STEP),
            "metrics": metric,
            "samples": np.array([(0, -5, 2**60, 0)], LINK_SAMPLE),
            "totals": total,
            "bins": np.array([(0, 1, -2, 2**31 - 1, 2**52)], LINK_BIN),
        },
    )


def reseal(header: bytes, columns: bytes) -> bytes:
    content = header + columns
    return struct.pack("<4s32sI", b"TYB1", digest(len(header), content), len(header)) + content


def split(body: bytes) -> tuple[dict, bytes]:
    (length,) = struct.unpack_from("<I", body, 36)
    return json.loads(body[40 : 40 + length]), body[40 + length :]


def test_decode_gives_back_what_was_encoded() -> None:
    batch = some_batch()
    again = decode(encode(batch))
    for name, table in batch.tables.items():
        assert again.tables[name].tobytes() == table.tobytes(), name
    assert (again.attempt, again.party, again.name, again.sequence) == (3, 1, "worker 1", 9)
    assert (again.metrics, again.links, again.dropped, again.final) == (batch.metrics, batch.links, 2, True)
    assert again.step_range == (0, 4)


def test_older_batches_have_the_hosts_times() -> None:
    events = some_events(1000)
    events["clock"] = np.arange(1000) % 2
    header, columns = split(
        encode(Batch(attempt=1, party=0, name="w", sequence=0, tables={"events": events}))
    )
    assert header["tables"][0]["columns"].pop() == ["clock", "|u1"]
    raw = zlib.decompress(columns)
    older = decode(reseal(json.dumps(header).encode(), zlib.compress(raw[: -len(events)])))
    expected = events.copy()
    expected["clock"] = 0
    assert older.table("events").tobytes() == expected.tobytes()
    header["tables"][0]["columns"].pop()
    with pytest.raises(BatchError, match="not those of this version"):
        decode(reseal(json.dumps(header).encode(), columns))


def test_older_batches_say_less_of_links() -> None:
    link = LinkInfo(interface="lo", host="a", rate_bps=None, rate_source="unknown", shared=True, by_size=True)
    header, columns = split(encode(replace(some_batch(), links=(link,))))
    assert decode(reseal(json.dumps(header).encode(), columns)).links == (link,)
    for name in ("shared", "by_size"):
        del header["links"][0][name]
    older = decode(reseal(json.dumps(header).encode(), columns))
    assert older.links == (replace(link, shared=False, by_size=False),)


def test_the_header_alone_says_who_and_when() -> None:
    header, _ = split(encode(some_batch()))
    assert header["attempt"] == 3
    assert header["steps"] == [0, 4]
    assert header["times"][0] < header["times"][1]


def test_an_empty_batch_is_a_batch() -> None:
    again = decode(encode(Batch(attempt=1, party=0, name="", sequence=0)))
    assert len(again.table("events")) == 0
    assert again.step_range == (-1, -1)


def test_columns_are_much_smaller_than_the_events() -> None:
    events = some_events(20_000)
    size = len(encode(Batch(attempt=1, party=0, name="w", sequence=0, tables={"events": events})))
    assert size / len(events) < EVENT.itemsize / 3


def test_every_truncation_and_every_flipped_byte_is_noticed() -> None:
    body = encode(some_batch())
    choose = random.Random(0)
    for length in [0, 3, 4, 36, 39, 40, 41, *choose.sample(range(len(body)), 50), len(body) - 1]:
        with pytest.raises(BatchError):
            decode(body[:length])
    for position in [0, 4, 36, 37, 38, 39, 40, *choose.sample(range(len(body)), 50)]:
        changed = bytearray(body)
        changed[position] ^= 0x40
        with pytest.raises(BatchError):
            decode(bytes(changed))
    with pytest.raises(BatchError, match="hash"):
        check(body + b"more")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda h: h.pop("attempt"), "attempt"),
        (lambda h: h.update(party=-1), "out of range"),
        (lambda h: h.update(party=True), "'True' is not a whole number"),
        (lambda h: h.update(sequence=1.5), "'1.5' is not a whole number"),
        (lambda h: h.update(sequence="nine"), "nine"),
        (lambda h: h["tables"][0].update(name="nonsense"), "Known: events, steps"),
        (lambda h: h["tables"].append(h["tables"][0]), "there twice"),
        (lambda h: h["tables"][0].update(rows=-1), "-1 rows"),
        (lambda h: h["tables"][0].update(rows=999), "the header says"),
        (lambda h: h["tables"][0].update(rows=MAX_RAW_BYTES), "Send smaller batches"),
        (lambda h: h["tables"][0]["columns"].pop(0), "not those of this version"),
        (lambda h: h.update(links=[]), "link = 0 out of range"),
        (lambda h: h.update(metrics=["", "b"]), "1 to 100 characters"),
        (lambda h: h.update(tables=7), "TypeError"),
        (lambda h: h.update(dropped=float("inf")), "'inf' is not a whole number"),
        (lambda h: h.update(dropped=2**64), "dropped 18446744073709551616: out of range"),
        (lambda h: h["links"][0].update(rate_bps=2**64), "bits per second"),
        (lambda h: h["links"][0].update(host="\ud800"), "characters that a database cannot hold"),
        (lambda h: h["links"][0].update(rate_source="x" * 17), "1 to 16 characters"),
    ],
)
def test_a_lying_header_is_refused(change, reason: str) -> None:  # type: ignore[no-untyped-def]
    header, columns = split(encode(some_batch()))
    change(header)
    with pytest.raises(BatchError, match=reason):
        decode(reseal(json.dumps(header).encode(), columns))


def test_a_header_that_is_no_object_and_columns_that_are_no_zlib_are_refused() -> None:
    header, _ = split(encode(some_batch()))
    with pytest.raises(BatchError, match="not a JSON object"):
        decode(reseal(b"[1]", b""))
    with pytest.raises(BatchError, match="not JSON"):
        decode(reseal(b"\xff\xff", b""))
    with pytest.raises(BatchError, match="not JSON"):
        decode(reseal(b"[" * 100_000, b""))
    with pytest.raises(BatchError, match="decompress"):
        decode(reseal(json.dumps(header).encode(), b"no zlib"))


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("bins", "bytes", 2**62),
        ("totals", "count", -1),
        ("events", "end", 2**62),
        ("steps", "exposed", -(2**62)),
    ],
)
def test_values_that_overflow_where_they_are_added_up_are_refused(
    table: str, column: str, value: int
) -> None:
    batch = some_batch()
    batch.tables[table][column][0] = value
    with pytest.raises(BatchError, match=f"{column} = {value} out of range"):
        decode(encode(batch))


def test_values_that_no_event_has_are_refused() -> None:
    batch = some_batch()
    batch.tables["events"]["kind"][5] = 200
    with pytest.raises(BatchError, match="kind = 200 out of range"):
        decode(encode(batch))
