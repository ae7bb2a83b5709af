"""What a codec goes on from: tensors with an element for each of a unit's, zeros at first.

They have the unit's own type, but never less than float32: what waits for many messages grows far beyond one gradient,
and in 16 bits what is added to it would round to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from engine.codec.base import Piece


class Memory:
    """By name. Nothing is there before the first message."""

    def __init__(self, piece: Piece, *names: str) -> None:
        self._piece = piece
        self._names = names
        self._dtype = piece.dtype if piece.dtype.itemsize >= 4 else torch.float32
        self._held: dict[str, Tensor] = {}

    def of(self, name: str, parts: Sequence[Tensor], at: Sequence[int]) -> list[Tensor]:
        """Views of what there is of the elements of `parts`, which begin in the unit where `at` says."""
        if not self._held:
            piece = self._piece
            self._held = {each: torch.zeros(piece.count, dtype=self._dtype) for each in self._names}
        held = self._held[name]
        return [held[start : start + part.numel()] for start, part in zip(at, parts, strict=True)]

    @property
    def tensors(self) -> list[Tensor]:
        """All that there are, for who counts them."""
        return list(self._held.values())

    def state(self) -> dict[str, Tensor]:
        """Copies of all, or nothing."""
        return {name: held.clone() for name, held in self._held.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state()`. Raises ValueError where it is another unit's, or another codec's."""
        if state and set(state) != set(self._names):
            raise ValueError(f"{sorted(state)} is not what is kept here: {sorted(self._names)}")
        piece = self._piece
        for name, held in state.items():
            if held.shape != (piece.count,) or held.dtype != self._dtype:
                raise ValueError(
                    f"a {name} of {tuple(held.shape)} {held.dtype} does not belong to {piece.count} {self._dtype}"
                    f" elements of {piece.name}"
                )
        self._held = {name: held.clone() for name, held in state.items()}
