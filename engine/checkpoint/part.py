"""A party's part of a checkpoint: named tensors and texts, as a file in the safetensors format.

A file is the length of its header (8 bytes, little-endian), the header (JSON: of each tensor its type, shape and place;
texts under `__metadata__`), and the tensors' bytes one after another. Nothing in it is a program, as in a pickle.
Source: the format of huggingface/safetensors, version 0.4 and later.
"""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from engine.checkpoint.store import Written
from engine.regular import PRIVATE, open_regular
from engine.tensor_bytes import as_bytes

_TYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
    torch.complex64: "C64",
    torch.complex128: "C128",  # of ours alone: the format has no name for it
}
_DTYPES = {name: dtype for dtype, name in _TYPES.items()}
_TEXTS = "__metadata__"
_PIECE = 2**24
"""Bytes that are summed and written at a time: between two, other threads have the interpreter."""


@dataclass(kw_only=True)
class Part:
    """What one party has captured; the tensors are its own, on the host."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def put(self, prefix: str, state: Mapping[str, Tensor]) -> None:
        """Copies of `state`, each named `prefix/name`."""
        for name, tensor in state.items():
            self.tensors[f"{prefix}/{name}"] = copied(tensor)

    def under(self, prefix: str) -> dict[str, Tensor]:
        """What was put there, by its own names."""
        return under(self.tensors, prefix)


def copied(tensor: Tensor) -> Tensor:
    """On the host, contiguous, and nobody else's."""
    return tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)


def under(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Those of `state` whose names begin with `prefix/`, without that."""
    start = f"{prefix}/"
    return {name.removeprefix(start): held for name, held in state.items() if name.startswith(start)}


def parted(state: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """`state` by what its names begin with, before the first `/`."""
    found: dict[str, dict[str, Tensor]] = {}
    for name, held in state.items():
        first, _, rest = name.partition("/")
        found.setdefault(first, {})[rest] = held
    return found


def nested(states: Mapping[Any, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Several states as one, each under its key."""
    return {f"{key}/{name}": held for key, state in states.items() for name, held in state.items()}


def pieces(part: Part) -> Iterator[memoryview]:
    """A part as a file, piece by piece. Raises TypeError for a tensor that the format does not know."""
    header: dict[str, Any] = {_TEXTS: part.texts}
    at = 0
    for name, tensor in part.tensors.items():
        if tensor.dtype not in _TYPES:
            raise TypeError(f"{name} is of {tensor.dtype}, of which no checkpoint is made")
        header[name] = {
            "dtype": _TYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [at, at + tensor.nbytes],
        }
        at += tensor.nbytes
    said = json.dumps(header).encode()
    said += b" " * (-len(said) % 8)
    head = memoryview(len(said).to_bytes(8, "little") + said)
    for view in chain((head,), map(_bytes, part.tensors.values())):
        for start in range(0, len(view), _PIECE):
            yield view[start : start + _PIECE]


def write(part: Part, path: Path) -> Written:
    """Write a part, for this user only, and wait until the disk has it. Raises OSError, and TypeError for a tensor that
    the format does not know."""
    count = total = 0
    written = pieces(part)
    head = next(written)  # before there is a file
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        for piece in chain((head,), written):
            total = zlib.crc32(piece, total)
            count += _write_all(file, piece)
        os.fdatasync(descriptor)
    return Written(bytes=count, crc32=total)


def _write_all(file: Any, piece: memoryview) -> int:
    left = piece
    while left:
        left = left[file.write(left) :]
    return len(piece)


def read(path: Path, wanted: Callable[[str], bool] = lambda name: True) -> Part:
    """A part that has been found to be what was written, or of it the tensors whose names are `wanted`. Raises
    OSError, and ValueError for a file of another kind."""
    with open_regular(path) as file:
        left = os.fstat(file.fileno()).st_size - 8
        size = int.from_bytes(file.read(8), "little")
        if size > left:
            raise ValueError(f"{path} ends within its header of {size} bytes")
        try:
            header = json.loads(file.read(size))
            part, said = Part(texts=dict(header.pop(_TEXTS, {}))), _said(header)
        except (RecursionError, TypeError, AttributeError, KeyError) as error:
            raise ValueError(f"{path} has a header that says nothing: {error!r}") from error
        left -= size
        for name, (dtype, shape) in said.items():
            left -= math.prod(shape) * dtype.itemsize
            if left < 0:
                raise ValueError(f"{path} ends within a tensor")
            if not wanted(name):
                file.seek(math.prod(shape) * dtype.itemsize, os.SEEK_CUR)
                continue
            part.tensors[name] = torch.empty(shape, dtype=dtype)
            _read_all(file, _bytes(part.tensors[name]), path)
    return part


def _said(header: Mapping[str, Any]) -> dict[str, tuple[torch.dtype, list[int]]]:
    """What a header says of each tensor; raises what Python raises where it says something else."""
    said = {name: (_DTYPES[each["dtype"]], list(each["shape"])) for name, each in header.items()}
    for name, (_, shape) in said.items():
        if not all(type(size) is int and size >= 0 for size in shape):
            raise TypeError(f"the shape of {name} is {shape}")
    return said


def _read_all(file: BinaryIO, room: memoryview, path: Path) -> None:
    if room and file.readinto(room) != len(room):  # type: ignore[attr-defined]
        raise ValueError(f"{path} ends within a tensor")


def _bytes(tensor: Tensor) -> memoryview:
    return as_bytes(tensor.reshape(-1).view(torch.uint8)) if tensor.numel() else memoryview(b"")
