"""An encoding: a codec with its options, as a plan says it of a layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.axes.codec import CODEC
from engine.axes.codec_sizes import MOST_CODED
from engine.axes.matrices import Rows
from engine.errors import UserError
from engine.plan.description import DTYPE_BYTES
from engine.plan.mechanism_options import changed, options_of


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """What travels, and how many bytes that takes."""

    codec: str
    """A value of the axis `codec`."""
    options: Any
    """Of the class that its row names: all of them, those left out with their defaults."""
    entropy_coding: bool = False
    """Whether messages say in fewer bits which elements they have, where they can."""

    @property
    def traits(self) -> frozenset[str]:
        """The codec's, with these options."""
        row = CODEC[self.codec]
        return row.traits if row.by_options is None else row.by_options(self.options)

    @property
    def kept(self) -> int:
        """How many numbers of each element a worker that encodes keeps from one message to the next."""
        return CODEC[self.codec].kept(self.options) + self.kept_of_sums

    @property
    def kept_of_sums(self) -> int:
        """The same of a party that encodes sums on their way back."""
        return int("feedback" in self.traits)

    @property
    def exact(self) -> bool:
        """Whether all messages of so many elements have as many bytes."""
        return not self.entropy_coding and not CODEC[self.codec].varies(self.options)

    @property
    def by_value(self) -> bool:
        """Whether how long a message is depends on the values of its elements."""
        return self.entropy_coding or "by-value" in CODEC[self.codec].traits

    def bytes(self, dtype: str, count: int, rows: Iterable[Rows] = ()) -> int:
        """Bytes of a message of so many elements of a type; at most, where they are not `exact`. `rows`: of which
        matrices these are; where that is left out, it is the most that they may take."""
        row, item = CODEC[self.codec], DTYPE_BYTES[dtype]
        known = list(rows) if row.shaped is not None else []
        if row.shaped is not None and known:
            return row.shaped(self.options, known, item)
        size = row.size(self.options, count, item)
        return size + MOST_CODED if self.entropy_coding and size else size

    def phases(self, rows: Sequence[Rows]) -> tuple[int, ...]:
        """How many numbers are summed in each phase, of elements that are rows of these matrices; empty where messages
        of this codec always stand by themselves."""
        phases = CODEC[self.codec].phases
        return () if phases is None else phases(self.options, rows)

    def extent(self, dtype: str, count: int, message: memoryview, rows: Iterable[Rows] = ()) -> int:
        """Bytes of the message of so many elements of a type that `message` begins with."""
        extent = CODEC[self.codec].extent
        if extent is None:
            return self.bytes(dtype, count, rows)
        return extent(self.options, count, DTYPE_BYTES[dtype], message, self.entropy_coding)

    @property
    def text(self) -> str:
        """For people: the codec, and what differs from its defaults."""
        said = changed(self.codec, self.options)
        return f"{said}, entropy-coded" if self.entropy_coding else said


def encoding(
    codec: str,
    given: Mapping[str, Any] | None = None,
    *,
    entropy_coding: bool = False,
    field: str = "codec_options",
) -> Encoding:
    """A codec with the options that are `given`. Raises UserError below `field` for those that it does not have, and
    for values that it cannot have; and for entropy coding of what it does not send."""
    if entropy_coding and "sparse" not in CODEC[codec].traits:
        able = ", ".join(row.name for row in CODEC if row.available and "sparse" in row.traits)
        raise UserError(
            "entropy_coding",
            True,
            f"{codec} says something of every element, not which ones it sends: there is nothing to code",
            f"Leave it out, or use one of: {able}",
        )
    return Encoding(
        codec=codec, options=options_of(CODEC[codec], given, field), entropy_coding=entropy_coding
    )
