"""Totals and bins against the plainest way to compute them."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np

from engine.telemetry.batch import decode
from engine.telemetry.events import (
    ALL_LAYERS,
    BIN_NS,
    EVENT,
    LEVEL_FACTOR,
    LINK_SAMPLE,
    Direction,
    Kind,
    Track,
)
from engine.telemetry.recorder import Recorder
from engine.telemetry.spread import MAX_BINS, MOST_TAKEN, LinkBins, coarsen, spread
from engine.telemetry.totals import Totals


def random_events(rows: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    events = np.zeros(rows, EVENT)
    events["step"] = random.integers(0, 6, rows)
    events["layer"] = random.integers(-1, 4, rows)
    events["kind"] = random.integers(0, len(Kind), rows)
    events["track"] = random.integers(0, len(Track), rows)
    events["start"] = random.integers(0, 300_000_000, rows)
    events["end"] = events["start"] + random.integers(0, 90_000_000, rows)
    events["bytes"] = random.integers(0, 10**9, rows)
    return events


def test_totals_are_the_sums_of_all_events_however_they_arrive() -> None:
    events = random_events(5000, 1)
    totals = Totals()
    for part in np.array_split(events, 200):
        totals.add(part)
    count: Counter = Counter()
    busy: Counter = Counter()
    size: Counter = Counter()
    exposed: Counter = Counter()
    for event in events.tolist():
        step, layer, _unit, kind, track, _peer, _priority, _queued, start, end, bytes_, _clock = event
        key = (step, layer, kind, track)
        count[key] += 1
        busy[key] += end - start
        size[key] += bytes_
        exposed[key] += end - start if (kind, track) == (Kind.WAIT, Track.COMPUTE) else 0
    rows = totals.take().tolist()
    assert {row[:4] for row in rows} == set(count)
    assert all(row[4:] == (count[k], busy[k], size[k], exposed[k]) for row in rows for k in [row[:4]])
    assert len(totals.take()) == 0


def test_bytes_are_spread_over_their_interval_and_none_is_lost() -> None:
    start, end, size = np.array([5]), np.array([25]), np.array([100])
    assert [column.tolist() for column in spread(start, end, size, bin_ns=10)] == [
        [0, 0, 0],
        [0, 1, 2],
        [25, 50, 25],
    ]


def test_spread_matches_exact_fractions() -> None:
    random = np.random.default_rng(2)
    start = random.integers(-50, 1000, 300)
    end = start + random.integers(0, 400, 300)
    size = random.integers(0, 10**12, 300)
    row, bin_index, inside = spread(start, end, size, bin_ns=64)
    sums = np.zeros(300, np.int64)
    np.add.at(sums, row, inside)
    assert (sums == size).all()
    assert (inside >= 0).all()
    for r, b, got in zip(row.tolist(), bin_index.tolist(), inside.tolist(), strict=True):
        first, last = int(start[r]), int(end[r])
        overlap = min(last, (b + 1) * 64) - max(first, b * 64)
        wanted = Fraction(int(size[r]) * overlap, last - first) if last > first else size[r]
        assert abs(got - wanted) <= 2


def test_edges_of_a_spread() -> None:
    at_a_point = spread(np.array([20]), np.array([20]), np.array([7]), bin_ns=10)
    assert [column.tolist() for column in at_a_point] == [[0], [2], [7]]
    exactly_one_bin = spread(np.array([10]), np.array([20]), np.array([7]), bin_ns=10)
    assert [column.tolist() for column in exactly_one_bin] == [[0], [1], [7]]
    endless = spread(np.array([0]), np.array([2**60]), np.array([7]), bin_ns=10)
    assert len(endless[0]) <= MAX_BINS + 1
    assert endless[2].sum() == 7
    nothing = np.empty(0, np.int64)
    assert all(len(column) == 0 for column in spread(nothing, nothing, nothing))


def test_bins_hold_every_sent_and_received_byte_by_layer() -> None:
    events = random_events(3000, 3)
    bins = LinkBins()
    for part in np.array_split(events, 100):
        bins.add_events(part)
    rows = bins.take()
    for kind, direction in ((Kind.SEND, Direction.TX), (Kind.RECEIVE, Direction.RX)):
        for layer in range(-1, 4):
            moved = events[(events["kind"] == kind) & (events["layer"] == layer)]["bytes"].sum()
            assert rows[(rows["direction"] == direction) & (rows["layer"] == layer)]["bytes"].sum() == moved
    keys = rows[["link", "direction", "layer", "bin"]].tolist()
    assert len(set(keys)) == len(keys)


def test_a_coarser_level_holds_the_same_bytes() -> None:
    bins = LinkBins()
    bins.add_events(random_events(500, 4))
    fine = bins.take()
    coarse = coarsen(fine)
    assert coarse["bytes"].sum() == fine["bytes"].sum()
    expected: Counter = Counter()
    for link, direction, layer, index, size in fine.tolist():
        expected[link, direction, layer, index // LEVEL_FACTOR] += size
    assert {row[:4]: row[4] for row in coarse.tolist()} == dict(expected)


def test_counter_samples_become_the_bytes_in_between() -> None:
    bins = LinkBins()
    ms = 1_000_000
    bins.add_samples(np.array([(1, 5 * ms, 100, 0)], LINK_SAMPLE))
    assert len(bins.take()) == 0, "one reading says nothing about bytes in between"
    # 200 bytes over 20 ms touch three bins; then the counter begins anew, which counts nothing.
    bins.add_samples(np.array([(1, 25 * ms, 300, 0), (1, 35 * ms, 10, 4)], LINK_SAMPLE))
    rows = bins.take().tolist()
    assert [row for row in rows if row[1] == Direction.TX] == [
        (1, Direction.TX, ALL_LAYERS, 0, 50),
        (1, Direction.TX, ALL_LAYERS, 1, 100),
        (1, Direction.TX, ALL_LAYERS, 2, 50),
    ]
    assert sum(row[4] for row in rows if row[1] == Direction.RX) == 4
    assert 10 * ms == BIN_NS


def test_bytes_of_minutes_are_told_in_several_batches() -> None:
    """A server stores a batch at one time, and others wait for it."""
    recorder = Recorder(0, "worker 0", lambda: 0, None, flush_s=3_600.0)
    bins = 3 * MOST_TAKEN // 2
    for layer in range(2):
        recorder.event(
            Kind.SEND, Track.SEND, step=0, layer=layer, start=0, end=bins * BIN_NS, bytes=10 * bins
        )
    recorder.flush()
    recorder.close()
    told = [decode(body).table("bins") for body in recorder.memory]
    assert [len(table) for table in told] == [MOST_TAKEN] * 3
    together = np.concatenate(told)
    assert together["bytes"].sum() == 2 * 10 * bins
    assert len(np.unique(together[["layer", "bin"]])) == 2 * bins
