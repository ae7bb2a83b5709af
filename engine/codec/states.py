"""The states of many units' codecs as one, for whoever saves them and goes on from them."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from engine.checkpoint.part import nested, parted, under
from engine.codec.base import SummedCodec, UnitCodec

Codecs = Mapping[str, Mapping[int, UnitCodec] | Mapping[int, SummedCodec]]
"""By what they are for, then by unit."""


def states_of(codecs: Codecs) -> dict[str, Tensor]:
    """What each goes on from; nothing of one that remembers nothing."""
    return nested(
        {
            f"{what}/{unit}": codec.state()
            for what, by_unit in codecs.items()
            for unit, codec in by_unit.items()
        }
    )


def load_states(codecs: Codecs, state: Mapping[str, Tensor]) -> None:
    """Go on from `states_of` the same codecs."""
    for what, by_unit in codecs.items():
        mine = parted(under(state, what))
        for unit, codec in by_unit.items():
            codec.load(mine.get(str(unit), {}))
