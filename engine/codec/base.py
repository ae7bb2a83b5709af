"""What a codec does to one unit on its way.

A codec is a class, and a unit's codec an instance of it: opened for one unit on one party, which encodes what leaves
that party and decodes what arrives there. It never communicates and knows no exchange. Its size on the wire stands in
its row (`engine/axes/codec.py`), so that plans are sized without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

import torch
from torch import Tensor

from engine.axes.matrices import Rows
from engine.errors import TrainingError
from engine.tensor_bytes import as_bytes, joined


@dataclass(frozen=True, kw_only=True)
class Piece:
    """The unit that a codec is opened for."""

    name: str
    """What errors call it: its layer."""
    count: int
    """Elements."""
    dtype: torch.dtype
    """Their type."""
    rows: tuple[Rows, ...] = ()
    """Of which matrices its elements are rows, from its beginning on, as far as that is known."""
    seed: int = 0
    """Of what its codec draws at random: another one for every job's seed, unit and sender (`draws.py`)."""
    sums: bool = False
    """What is encoded are sums of all workers' contributions, on their way back."""


class UnitCodec(Protocol):
    """Encode what leaves, decode what arrives.

    `parts` are one-dimensional contiguous tensors of one type on the host: pieces of the unit, which lie end to end in
    a payload. A payload is bytes of any layout that belongs to the codec, as many as its row says.
    """

    def __init__(self, piece: Piece, options: Any) -> None:
        """`options`: of the class that its row names."""
        ...

    def encode(self, parts: Sequence[Tensor], at: Sequence[int]) -> list[Tensor]:
        """What travels for `parts`: contiguous 1-D tensors whose bytes follow one another, views where nothing changes.
        `at`: where in the unit each part begins, for what is remembered of its elements. Raises TrainingError, and
        remembers nothing, where the codec cannot express a value."""
        ...

    def decode(self, payload: memoryview, parts: Sequence[Tensor]) -> None:
        """Write what `payload` says over `parts`. Raises RuntimeError or ValueError where it is not as long as
        parts of that size need."""
        ...

    def decode_add(self, payload: memoryview, parts: Sequence[Tensor]) -> None:
        """Add it to `parts`, in the parts' own precision."""
        ...

    def state(self) -> dict[str, Tensor]:
        """What a later step needs of the earlier ones; empty for a codec that remembers nothing."""
        ...

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state()` of the same unit's codec."""
        ...


class SummedCodec(Protocol):
    """One worker's side of a unit whose contributions all workers sum in phases (`Unit.phases`): one step at a time."""

    def __init__(self, piece: Piece, options: Any) -> None:
        """`piece.seed` is the same on all workers."""
        ...

    def begin(self, parts: Sequence[Tensor]) -> Tensor:
        """What is summed first, of all of the unit's `parts`: 1-D, of its own type. Raises TrainingError, and remembers
        nothing, where the codec cannot express a value."""
        ...

    def go_on(self, sums: Tensor) -> Tensor:
        """What is summed next, where `sums` are those of the phase before."""
        ...

    def end(self, sums: Sequence[Tensor], parts: Sequence[Tensor], there: Sequence[bool]) -> None:
        """Write the sum over `parts`, where `sums` are those of each phase. `there`: of which parts any worker has a
        gradient; of the others nothing is applied."""
        ...

    def state(self) -> dict[str, Tensor]:
        """What a later step needs of the earlier ones, between two of them."""
        ...

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state()` of the same unit's codec."""
        ...


class Stateless:
    """What codecs share that remember nothing."""

    def state(self) -> dict[str, Tensor]:
        return {}

    def load(self, state: Mapping[str, Tensor]) -> None:
        if state:
            raise ValueError(f"{type(self).__name__} remembers nothing, and was given {sorted(state)}")


def inexpressible(name: str, *, clipped: bool = True) -> TrainingError:
    """What `encode` raises of a unit called `name`. `clipped`: whether clipping gradients is a remedy."""
    clip = " clip gradients," if clipped else ""
    return TrainingError(
        f"what {name} sends holds a value that is not finite, or too large for float32, and its codec has no code for"
        f" that. Lower the learning rate,{clip} or use the codec fp32"
    )


def magnitudes_of(flat: Tensor, name: str, *, clipped: bool = True) -> Tensor:
    """Of each element of a unit called `name`, as float32. Raises what `inexpressible` says."""
    sizes = flat.float().abs()
    if sizes.numel() and not sizes.max().isfinite():
        raise inexpressible(name, clipped=clipped)
    return sizes


def end_to_end(parts: Sequence[Tensor]) -> Tensor:
    """The parts as one 1-D tensor; a single one is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts)) if parts else torch.empty(0)


def arriving(
    payload: Sequence[Tensor], decode: Callable[[memoryview, Sequence[Tensor]], None], parts: Sequence[Tensor]
) -> list[Tensor]:
    """What a receiver that decodes by `decode` makes of a message for parts like these."""
    found = [torch.empty_like(part) for part in parts]
    decode(joined([as_bytes(tensor) for tensor in payload]), found)
    return found


def pieces(payload: Tensor, parts: Sequence[Tensor]) -> Iterable[tuple[Tensor, Tensor]]:
    """(part, its piece of the payload) for parts that lie end to end in it; a slice mostly has one part."""
    if len(parts) == 1 and parts[0].numel() == payload.numel():
        return ((parts[0], payload),)
    return zip(parts, payload.split_with_sizes([part.numel() for part in parts]), strict=True)


def beginnings(parts: Sequence[Tensor], first: int = 0) -> list[int]:
    """Where each part begins, where the first one begins at `first` and they lie end to end."""
    return list(accumulate((part.numel() for part in parts[:-1]), initial=first)) if parts else []


def write(values: Tensor, parts: Sequence[Tensor]) -> None:
    """Write `values` (1-D, of a type that torch converts) over `parts`, piece after piece."""
    for part, piece in pieces(values, parts):
        part.copy_(piece)


def add(values: Tensor, parts: Sequence[Tensor]) -> None:
    """Add `values` to `parts`, in the parts' own precision."""
    for part, piece in pieces(values, parts):
        part.add_(piece)
