"""Opening a codec for a unit on one party: with its options, and with error feedback where it has that."""

from __future__ import annotations

from engine.axes.codec import CODEC
from engine.codec.base import Piece, UnitCodec
from engine.codec.feedback import Feedback
from engine.plan.encoding import Encoding


def opened(encoding: Encoding, piece: Piece, *, remembers: bool = True) -> UnitCodec:
    """The codec of `piece`, with nothing remembered yet. `remembers`: whether the same elements come again, so that
    what a message loses can be kept for the next one."""
    row = CODEC[encoding.codec]
    coded = {"entropy_coding": encoding.entropy_coding} if "sparse" in row.traits else {}
    codec: UnitCodec = row.load()(piece, encoding.options, **coded)
    return Feedback(codec, piece) if remembers and "feedback" in encoding.traits else codec
