"""The event and its companions, as NumPy columns. Times are integer ns on the attempt's clock, sizes bytes.

0 is the attempt's epoch; -1 stands for "none" in `layer`, `unit`, `peer` and `queued`.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

NONE = -1
NO_LAYER = -1
ALL_LAYERS = -2
"""In link bins: everything that the interface counted, whichever layer it was for."""


class Kind(IntEnum):
    """What happened. The numbers are stored: add at the end, never renumber."""

    FORWARD = 0
    BACKWARD = 1
    WAIT = 2
    """Nothing could be computed because a version had not arrived."""
    SEND = 3
    RECEIVE = 4
    REDUCE = 5
    UPDATE = 6
    ENCODE = 7
    DECODE = 8
    SWAP_OUT = 9
    """Saved bytes of a layer left for a second tier of memory."""
    SWAP_IN = 10
    """They came back; on the compute track: nothing could be computed until they had."""
    RECOMPUTE = 11
    """A layer's forward pass is computed again; its bytes are what that saves."""
    INPUT = 12
    AVERAGE = 13
    """A worker takes the step that all have averaged."""
    SAVED = 14
    """Takes no time: so many bytes of a layer are in memory for its backward when that begins."""


class Track(IntEnum):
    """Which row of its worker an event is drawn in. The numbers are stored."""

    COMPUTE = 0
    SEND = 1
    RECEIVE = 2
    SERVER = 3
    INPUT = 4
    MEMORY = 5
    """What moves between tiers of memory."""


class Clock(IntEnum):
    """Whose times an event has. The numbers are stored."""

    HOST = 0
    CUDA = 1
    """The device's that computed it (`span_clock.py`)."""


class Direction(IntEnum):
    """Of bytes on a link, seen from the interface. The numbers are stored."""

    TX = 0
    RX = 1


EVENT = np.dtype(
    [
        ("step", "<i4"),
        ("layer", "<i2"),  # index in the model's description
        ("unit", "<i4"),  # the slice
        ("kind", "u1"),
        ("track", "u1"),
        ("peer", "<i2"),  # party number of the other side
        ("priority", "<i4"),
        ("queued", "<i8"),  # when it could have started
        ("start", "<i8"),
        ("end", "<i8"),
        ("bytes", "<i8"),
        ("clock", "u1"),
    ]
)
STEP = np.dtype(
    [
        ("step", "<i4"),
        ("start", "<i8"),
        ("end", "<i8"),
        ("samples", "<i8"),
        ("loss", "<f8"),  # NaN where it is not known
        ("exposed", "<i8"),
        ("compute", "<i8"),
        ("input", "<i8"),
    ]
)
METRIC = np.dtype([("name", "<i2"), ("step", "<i4"), ("time", "<i8"), ("value", "<f8")])
"""`name` is an index into the batch's list of metric names."""
LINK_SAMPLE = np.dtype([("link", "<i2"), ("time", "<i8"), ("tx_bytes", "<i8"), ("rx_bytes", "<i8")])
"""Counters as read, since whenever they began; `link` is an index into the batch's list of links."""
MOVED = np.dtype([("layer", "<i2"), ("direction", "u1"), ("start", "<i8"), ("end", "<i8"), ("bytes", "<i8")])
"""Bytes that went over a party's first link, and no event tells of: it stays in the recorder."""
TOTAL = np.dtype(
    [
        ("step", "<i4"),
        ("layer", "<i2"),
        ("kind", "u1"),
        ("track", "u1"),
        ("count", "<i8"),
        ("busy", "<i8"),
        ("bytes", "<i8"),
        ("exposed", "<i8"),
    ]
)
LINK_BIN = np.dtype(
    [("link", "<i2"), ("direction", "u1"), ("layer", "<i2"), ("bin", "<i8"), ("bytes", "<i8")]
)
"""`bin` is time divided by BIN_NS, rounded down."""
STALENESS = np.dtype(
    [("bin", "<i8"), ("layer", "<i2"), ("worker", "<i2"), ("staleness", "<i4"), ("count", "<i8")]
)
"""How many of a worker's contributions to a layer were applied at that staleness; `bin` is time divided by the width of
a bin at STALENESS_LEVEL, rounded down. Of a bucket of layers, the first one counts."""

BIN_NS = 10_000_000
LEVEL_FACTOR = 8
LEVELS = 6
"""Link bins are kept at BIN_NS x LEVEL_FACTOR^level for levels 0 to LEVELS - 1 (10 ms to 5.5 min)."""
STALENESS_LEVEL = 2
"""Staleness is counted at this level and those above it (0.64 s to 5.5 min): a mean needs many contributions, of which
a layer sees a few each second."""
