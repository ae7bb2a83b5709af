"""What falls into a stretch of time: pure functions, on a few spans and bins."""

from __future__ import annotations

import numpy as np

from backend.figures.facts import LinkFacts
from backend.figures.link_bytes import LinkBytes
from backend.figures.shared_units import SharedUnits, parts_of
from backend.figures.source import SPAN
from backend.services.stretch import Waited, layers_of, waits_within
from engine.telemetry.events import Direction, Kind, Track

LINK = LinkFacts(
    party=0,
    interface="transport",
    host="here",
    rate_bps=8_000,
    rate_source="shaped",
    shared=False,
    by_size=False,
)


def span(
    layer: int, start: int, end: int, kind: Kind = Kind.WAIT, track: Track = Track.COMPUTE
) -> np.ndarray:
    one = np.zeros(1, SPAN)
    one["layer"], one["start"], one["end"], one["kind"], one["track"] = layer, start, end, kind, track
    return one


def test_waits_count_with_what_lies_in_the_stretch() -> None:
    spans = np.concatenate([
        span(0, 0, 120), span(0, 150, 160), span(2, 190, 400), span(1, 0, 100), span(1, 200, 300),
        span(3, 110, 120, kind=Kind.FORWARD), span(4, 110, 120, track=Track.SEND), span(-1, 140, 141),
    ])  # fmt: skip
    assert waits_within(spans, 100, 200, SharedUnits()) == ({-1: (1, 1), 0: (2, 30), 2: (1, 10)}, (4, 41))
    assert waits_within(spans, 500, 600, SharedUnits()) == ({}, (0, 0))


def test_a_wait_for_a_bucket_is_one_for_each_of_its_layers_by_their_bytes() -> None:
    spans = np.concatenate([span(0, 0, 100), span(0, 100, 150), span(1, 150, 160)])
    spans["unit"] = [7, 7, 8]
    units = SharedUnits(parts={7: parts_of({0: 10, 2: 30})})
    assert waits_within(spans, 50, 200, units) == ({0: (2, 25), 1: (1, 10), 2: (2, 75)}, (3, 110))


def test_a_row_is_a_layer_that_moved_or_was_waited_for() -> None:
    panel = LinkBytes(
        link=LINK,
        direction=Direction.TX,
        layers=np.array([[300, 200], [0, 0], [50, 0]]),
        other=np.array([0, 10]),
    )
    rows = layers_of([panel], {3: Waited(2, 7)}, 1_000_000_000, 1, lambda layer: f"fc{layer}", str)
    assert [(row.layer, row.index, row.waits, row.waited_ns) for row in rows] == [
        ("fc0", 0, 0, 0), ("fc2", 2, 0, 0), ("fc3", 3, 2, 7), ("other", -1, 0, 0),
    ]  # fmt: skip
    assert [[(one.bytes, one.share) for one in row.moved] for row in rows] == [
        [(500, 0.5)], [(50, 0.05)], [], [(10, 0.01)],
    ]  # fmt: skip


def test_neighbours_that_share_a_row_of_wide_bins_are_one() -> None:
    panel = LinkBytes(
        link=LINK, direction=Direction.TX, layers=np.array([[3], [0], [5], [0], [7]]), other=np.array([0])
    )
    rows = layers_of([panel], {1: Waited(1, 4)}, 10**9, 2, str, lambda layer: f"{layer} (Linear)")
    assert [(row.layer, row.layer_name, row.moved[0].bytes, row.waits) for row in rows] == [
        ("0 to 1", "0 (Linear) to 1 (Linear)", 3, 1),
        ("2 to 3", "2 (Linear) to 3 (Linear)", 5, 0),
        ("4", "4 (Linear)", 7, 0),
    ]


def test_a_stretch_in_which_nothing_was_is_empty() -> None:
    assert layers_of([], {}, 10**9, 1, str, str) == []
