"""What codecs share that encode blocks of neighbouring elements, each with numbers of its own, such as a scale.

The parts of a message are laid end to end and cut into blocks; the last one may be shorter. The payload is the blocks'
numbers (float32), then the elements' codes: a small whole number for each, packed as digits (`packed.py`). Values are
computed in float32, whatever the unit's type. A slice whose size is a multiple of the block's has the blocks that its
layer would have as a whole.

Work goes in runs of whole blocks, so that what is made of a run stays in a core's own cache from one step to the next.
NumPy does it: its steps on so many elements cost less than PyTorch's (`engine/benchmarks/codecs.py`).

Where a server updates, more than half of the bytes remain unless its answers have a codec, too (`difference.py`); where
workers update, what returns is encoded in any case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.axes.codec_options import BlockOptions
from engine.codec.base import Piece, Stateless, add, inexpressible, write
from engine.codec.packed import Bytes, packed, packed_bytes, unpacked
from engine.instrumentation.raw_memory import NUMPY
from engine.tensor_bytes import as_tensor, without_history

Floats = NDArray[np.float32]
RUN = 2**16
"""About as many elements are worked on at a time."""
LEAST = np.finfo(np.float32).tiny
"""Of what is divided by: smaller numbers lose precision, and have no inverse."""


class Blockwise(Stateless):
    """A subclass says how a block becomes numbers and codes, and what they mean."""

    numbers: int = 1
    """Of each block, that travel beside its codes."""
    base: int = 256
    """Codes are below it."""

    def __init__(self, piece: Piece, options: BlockOptions) -> None:
        self._name = piece.name
        self.block = options.block

    def measured(self, blocks: Floats, work: Floats) -> Floats:
        """The numbers, one row for each row of `blocks`; not finite where an element is not. `work`: of the same
        shape, to write to."""
        raise NotImplementedError

    def to_codes(self, blocks: Floats, numbers: Floats, work: Floats, codes: Bytes) -> None:
        """Write an element's code for each of those. The numbers are finite."""
        raise NotImplementedError

    def to_values(self, numbers: Floats, codes: Bytes, values: Floats) -> None:
        """Write what codes mean over `values`, one row for each block."""
        raise NotImplementedError

    def packed(self, codes: Bytes) -> Bytes:
        """As they travel."""
        return packed(codes, self.base)

    def unpacked(self, travelled: Bytes, count: int) -> Bytes:
        """The inverse of `packed`."""
        return unpacked(travelled, self.base, count)

    def encode(self, parts: Sequence[Tensor], at: Sequence[int]) -> list[Tensor]:
        flat = _joined(parts)
        count = len(flat)
        numbers = np.empty((-(-count // self.block), self.numbers), np.float32)
        codes = np.empty(count, np.uint8)
        work = np.empty(min(count, self._run), np.float32)
        for here, blocks, shape in self._runs(count):
            rows, spare = flat[here].reshape(shape), work[: here.stop - here.start].reshape(shape)
            found = self.measured(rows, spare)
            if not np.isfinite(found).all():
                raise inexpressible(self._name)
            numbers[blocks] = found
            self.to_codes(rows, found, spare, codes[here].reshape(shape))
        return [torch.from_numpy(numbers.reshape(-1)), torch.from_numpy(self.packed(codes))]

    def decode(self, payload: memoryview, parts: Sequence[Tensor]) -> None:
        if _is_plain(parts):
            for values, blocks, codes in self._received(payload, NUMPY(parts[0])):
                self.to_values(blocks, codes, values)
        else:
            write(self._whole(payload, parts), parts)

    def decode_add(self, payload: memoryview, parts: Sequence[Tensor]) -> None:
        if _is_plain(parts):
            work = np.empty(min(parts[0].numel(), self._run), np.float32)
            for sums, blocks, codes in self._received(payload, NUMPY(parts[0])):
                values = work[: sums.size].reshape(sums.shape)
                self.to_values(blocks, codes, values)
                np.add(sums, values, out=sums)
        else:
            add(self._whole(payload, parts), parts)

    def _whole(self, payload: memoryview, parts: Sequence[Tensor]) -> Tensor:
        flat = torch.empty(sum(part.numel() for part in parts))
        self.decode(payload, [flat])
        return flat

    def _received(self, payload: memoryview, flat: Floats) -> Iterator[tuple[Floats, Floats, Bytes]]:
        """(elements of `flat`, their blocks' numbers, their codes), run by run, one row for each block."""
        count = len(flat)
        beside = 4 * self.numbers * -(-count // self.block)
        expected = beside + packed_bytes(self.base, count)
        if len(payload) != expected:
            raise RuntimeError(
                f"{len(payload)} bytes came for {count} elements of {self._name}, which are {expected} bytes"
            )
        received = NUMPY(as_tensor(payload, torch.uint8))
        # A message may begin at any address.
        numbers = received[:beside].copy().view(np.float32).reshape(-1, self.numbers)
        codes = self.unpacked(received[beside:], count)
        for here, blocks, shape in self._runs(count):
            yield flat[here].reshape(shape), numbers[blocks], codes[here].reshape(shape)

    @property
    def _run(self) -> int:
        """Elements of a run: of whole blocks."""
        return max(RUN // self.block, 1) * self.block

    def _runs(self, count: int) -> Iterator[tuple[slice, slice, tuple[int, int]]]:
        """(its elements, its blocks, how many blocks of how many elements). The last block, where it is shorter, is a
        run of its own."""
        whole = count // self.block * self.block
        for start in range(0, whole, self._run):
            stop = min(start + self._run, whole)
            first, last = start // self.block, stop // self.block
            yield slice(start, stop), slice(first, last), (last - first, self.block)
        if whole < count:
            yield slice(whole, count), slice(whole // self.block, None), (1, count - whole)


def _joined(parts: Sequence[Tensor]) -> Floats:
    """The parts end to end, as float32; a single one of that type is not copied."""
    flat = parts[0] if len(parts) == 1 else torch.cat(list(parts)) if parts else torch.empty(0)
    found: Floats = NUMPY(without_history(flat).float())
    return found


def _is_plain(parts: Sequence[Tensor]) -> bool:
    """Whether values can be written where they belong."""
    return len(parts) == 1 and parts[0].dtype == torch.float32
