"""What codecs cost on this machine, for who says where they pay."""

from __future__ import annotations

import json

from engine.measured_here import Measured, told_by
from engine.plan.paying import CodecCost, CodecCosts


def failed(why: str) -> CodecCosts:
    """Where it could not be measured."""
    return CodecCosts(why=why)


def measure() -> CodecCosts:
    """Some seconds of `engine/codec/cost.py`."""
    return told_by("engine.codec.cost", _read, failed)


def _read(said: str) -> CodecCosts:
    return CodecCosts(
        by_codec={
            name: CodecCost(encode_ns=float(encode), decode_ns=float(decode))
            for name, (encode, decode) in json.loads(said).items()
        }
    )


_HERE = Measured(measure, failed)


def here() -> CodecCosts:
    """Of this machine. The first call takes some seconds; later ones answer the same, but for a failure, after which
    one tries again now and then."""
    return _HERE.get()
