"""Which elements a message has, as bytes: the shorter one of a list and a bit for each element (`place_bytes`).

The list is cut into blocks of 65,536 elements: how many places lie in each block (uint32, where there are several
blocks), then the places within their blocks (uint16), ascending. So a place takes two bytes however long the message.

With entropy coding they travel as Golomb-Rice code (`rice.py`) wherever that is shorter. Where it is not, one byte says
so, and the shorter one of list and bits follows: no message is longer by more than that byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.axes.codec_sizes import AS_THEY_ARE, BLOCK, MOST_CODED, listed_bytes, place_bytes
from engine.codec.base import add, write
from engine.codec.rice import coded, decoded

Places: TypeAlias = npt.NDArray[np.int64]
"""Ascending, without repetitions."""
_COUNT, _PLACE = np.dtype("<u4"), np.dtype("<u2")


def packed(places: Places, count: int, *, entropy_coding: bool = False) -> npt.NDArray[np.uint8]:
    """Which of `count` elements."""
    size = place_bytes(count, len(places))
    if not entropy_coding or not size:
        return _plain(places, count, size)
    code = coded(places, MOST_CODED + size)
    if code is not None:
        return code
    return np.concatenate((np.array([AS_THEY_ARE], np.uint8), _plain(places, count, size)))


def unpacked(code: npt.NDArray[Any], count: int, chosen: int, *, entropy_coding: bool = False) -> Places:
    """The places that `packed` made `code` (uint8) of, which is as long as `place_extent` says. Raises RuntimeError
    where it cannot have."""
    size = place_bytes(count, chosen)
    if not size:
        return np.arange(chosen)
    if not entropy_coding:
        places = _from_plain(code, count, chosen, size)
    elif code[0] == AS_THEY_ARE:
        places = _from_plain(code[MOST_CODED:], count, chosen, size)
    else:
        places = decoded(code, chosen)
    if len(places) != chosen or places[-1] >= count:
        raise RuntimeError(f"{len(places)} places came where {chosen} of {count} elements were sent")
    if (np.diff(places) <= 0).any():  # ascending, and the last one inside: all of them are
        raise RuntimeError(f"places of {chosen} of {count} elements came that do not ascend")
    return places


def _plain(places: Places, count: int, size: int) -> npt.NDArray[np.uint8]:
    if not size:
        return np.empty(0, np.uint8)
    if size < listed_bytes(count, len(places)):
        flags = np.zeros(count, np.bool_)
        flags[places] = True
        return np.packbits(flags)
    within = (places & (BLOCK - 1)).astype(_PLACE).view(np.uint8)
    if count <= BLOCK:
        return within
    held = np.bincount(places >> 16, minlength=-(-count // BLOCK)).astype(_COUNT)
    return np.concatenate((held.view(np.uint8), within))


def _from_plain(code: npt.NDArray[Any], count: int, chosen: int, size: int) -> Places:
    if size < listed_bytes(count, chosen):
        return np.flatnonzero(np.unpackbits(code, count=count))
    cut = 4 * -(-count // BLOCK) if count > BLOCK else 0
    places: Places = code[cut:].copy().view(_PLACE).astype(np.int64)  # a message may begin at any address
    if not cut:
        return places
    held = code[:cut].copy().view(_COUNT)
    if held.sum() != chosen:
        raise RuntimeError(f"places of {held.sum()} elements came where {chosen} were sent")
    return places + np.repeat(np.arange(len(held)) << 16, held)


def by_part(places: Places, parts: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor, slice]]:
    """(part, places within it, which of `places` these are), for parts that lie end to end."""
    if len(parts) == 1:
        yield parts[0], torch.from_numpy(places), slice(None)
        return
    starts = np.cumsum([0, *(part.numel() for part in parts)])
    cuts = np.searchsorted(places, starts)
    for index, part in enumerate(parts):
        held = slice(cuts[index], cuts[index + 1])
        yield part, torch.from_numpy(places[held] - starts[index]), held


def write_at(places: Places | None, values: Tensor, parts: Sequence[Tensor]) -> None:
    """Write `values` at their places over `parts`, and zeros elsewhere; None: they are everywhere."""
    if places is None:
        write(values, parts)
        return
    for part, where, held in by_part(places, parts):
        part.zero_()
        part[where] = values[held].to(part.dtype)


def add_at(places: Places | None, values: Tensor, parts: Sequence[Tensor]) -> None:
    """Add them, in the parts' own precision."""
    if places is None:
        add(values, parts)
        return
    for part, where, held in by_part(places, parts):
        part.index_add_(0, where, values[held].to(part.dtype))
