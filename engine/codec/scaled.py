"""What codecs share that divide a block by its largest magnitude and round what is left."""

from __future__ import annotations

import numpy as np

from engine.codec.blockwise import LEAST, Blockwise, Floats
from engine.codec.packed import Bytes


class Scaled(Blockwise):
    """A subclass says which numbers there are to round to."""

    largest: float
    """What the largest magnitude of a block becomes."""

    def measured(self, blocks: Floats, work: Floats) -> Floats:
        return scales(blocks, work, self.largest)

    def to_codes(self, blocks: Floats, numbers: Floats, work: Floats, codes: Bytes) -> None:
        np.divide(blocks, numbers, out=work)
        self.rounded(work, codes)

    def to_values(self, numbers: Floats, codes: Bytes, values: Floats) -> None:
        self.meant(codes, values)
        values *= numbers

    def rounded(self, divided: Floats, codes: Bytes) -> None:
        """Write the nearest codes of values within `largest`, to rounding. They may be overwritten."""
        raise NotImplementedError

    def meant(self, codes: Bytes, values: Floats) -> None:
        """Write what the codes stand for."""
        raise NotImplementedError


def scales(blocks: Floats, work: Floats, largest: float) -> Floats:
    """One for each row: what its largest magnitude is to be divided by so that it becomes `largest`."""
    np.abs(blocks, out=work)
    found: Floats = work.max(axis=1, keepdims=True)
    found /= np.float32(largest)
    return np.maximum(found, LEAST, out=found)
