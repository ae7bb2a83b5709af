"""An encoding: a codec with its options, as a plan says it of a layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.axes.codec import CODEC
from engine.plan.description import DTYPE_BYTES
from engine.plan.mechanism_options import changed, options_of


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """What travels, and how many bytes that takes."""

    codec: str
    """A value of the axis `codec`."""
    options: Any
    """Of the class that its row names: all of them, those left out with their defaults."""

    @property
    def traits(self) -> frozenset[str]:
        """The codec's, with these options."""
        row = CODEC[self.codec]
        return row.traits if row.by_options is None else row.by_options(self.options)

    @property
    def kept(self) -> int:
        """How many numbers of each element every party that encodes keeps from one message to the next."""
        return CODEC[self.codec].kept + ("feedback" in self.traits)

    @property
    def exact(self) -> bool:
        """Whether all messages of so many elements have as many bytes."""
        return not CODEC[self.codec].varies(self.options)

    def bytes(self, dtype: str, count: int) -> int:
        """Bytes of a message of so many elements of a type; at most, where they are not `exact`."""
        return CODEC[self.codec].size(self.options, count, DTYPE_BYTES[dtype])

    def extent(self, dtype: str, count: int, message: memoryview) -> int:
        """Bytes of the message of so many elements of a type that `message` begins with."""
        extent = CODEC[self.codec].extent
        if extent is None:
            return self.bytes(dtype, count)
        return extent(self.options, count, DTYPE_BYTES[dtype], message)

    @property
    def text(self) -> str:
        """For people: the codec, and what differs from its defaults."""
        return changed(self.codec, self.options)


def encoding(codec: str, given: Mapping[str, Any] | None = None, *, field: str = "codec_options") -> Encoding:
    """A codec with the options that are `given`. Raises UserError below `field` for those that it does not have, and
    for values that it cannot have."""
    return Encoding(codec=codec, options=options_of(CODEC[codec], given, field))
