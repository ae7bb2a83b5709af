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
from typing import Any, BinaryIO, Self

import torch
from torch import Tensor

from engine.checkpoint.store import Written
from engine.mapped import MappedFile, folder_of, let_go
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
    """What one party has captured; the tensors are its own, on the host, or in a file where they have come from one."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    missing: str | None = None
    """Why something of it could not be captured."""
    _file: MappedFile | None = None

    def put(self, prefix: str, state: Mapping[str, Tensor]) -> None:
        """Copies of `state`, each named `prefix/name`. What is in a second tier of memory is copied there, so that no
        more than one tensor of it is in memory at a time."""
        for name, tensor in state.items():
            try:
                self.tensors[f"{prefix}/{name}"] = self._copied(tensor)
            except OSError as error:
                self.missing = f"there is no room for a copy of {name}: {error}"

    def under(self, prefix: str) -> Mapping[str, Tensor]:
        """What was put there, by its own names."""
        return under(self.tensors, prefix)

    def _copied(self, tensor: Tensor) -> Tensor:
        folder = folder_of(tensor)
        if folder is None:
            return copied(tensor)
        if self._file is None or self._file.folder != folder:
            self._file = MappedFile(folder)
        copy = self._file.room(tensor).copy_(tensor.detach())
        let_go(copy)
        let_go(tensor)
        return copy


class Opened:
    """A part that was written before, of which each tensor is read when it is asked for, and not kept."""

    def __init__(self, path: Path) -> None:
        """Raises OSError, and ValueError for a file of another kind."""
        self._file = open_regular(path)
        try:
            header, begin = _header(self._file, path)
            self.texts: dict[str, str] = dict(header.pop(_TEXTS, {}))
            self.tensors: Mapping[str, Tensor] = _InFile(self._file, path, _said(header), begin)
        except BaseException as error:
            self._file.close()
            if isinstance(error, RecursionError | TypeError | AttributeError | KeyError):
                raise ValueError(f"{path} has a header that says nothing: {error!r}") from error
            raise

    def under(self, prefix: str) -> Mapping[str, Tensor]:
        """What was put there, by its own names."""
        return under(self.tensors, prefix)

    def close(self) -> None:
        """Nothing is asked for any more."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _InFile(Mapping[str, Tensor]):
    """The tensors of a file."""

    def __init__(
        self, file: BinaryIO, path: Path, said: Mapping[str, tuple[torch.dtype, list[int]]], begin: int
    ) -> None:
        """`said`: of each its type and shape, in the order in which they lie behind one another from `begin` on."""
        self._file = file
        self._path = path
        self._places: dict[str, tuple[torch.dtype, list[int], int]] = {}
        size = os.fstat(file.fileno()).st_size
        for name, (dtype, shape) in said.items():
            self._places[name] = dtype, shape, begin
            begin += math.prod(shape) * dtype.itemsize
            if begin > size:
                raise ValueError(f"{path} ends within a tensor")

    def __getitem__(self, name: str) -> Tensor:
        dtype, shape, begin = self._places[name]
        found = torch.empty(shape, dtype=dtype)
        room = _bytes(found)
        self._file.seek(begin)
        if room and self._file.readinto(room) != len(room):  # type: ignore[attr-defined]
            raise ValueError(f"{self._path} ends within a tensor")
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class _Named(Mapping[str, Tensor]):
    """Some of a mapping's tensors under other names: who asks for none of them reads none."""

    def __init__(self, state: Mapping[str, Tensor], names: Mapping[str, str]) -> None:
        """`names`: of each of those what it is called in `state`."""
        self._state = state
        self._names = names

    def __getitem__(self, name: str) -> Tensor:
        return self._state[self._names[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def copied(tensor: Tensor) -> Tensor:
    """On the host, contiguous, and nobody else's."""
    return tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)


def under(state: Mapping[str, Tensor], prefix: str) -> Mapping[str, Tensor]:
    """Those of `state` whose names begin with `prefix/`, without that."""
    start = f"{prefix}/"
    return _Named(state, {name.removeprefix(start): name for name in state if name.startswith(start)})


def parted(state: Mapping[str, Tensor]) -> dict[str, Mapping[str, Tensor]]:
    """`state` by what its names begin with, before the first `/`."""
    found: dict[str, dict[str, str]] = {}
    for name in state:
        first, _, rest = name.partition("/")
        found.setdefault(first, {})[rest] = name
    return {first: _Named(state, names) for first, names in found.items()}


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
    yield head
    for tensor in part.tensors.values():
        view = _bytes(tensor)
        for start in range(0, len(view), _PIECE):
            yield view[start : start + _PIECE]
            let_go(tensor)


def write(part: Part, path: Path) -> Written:
    """Write a part, for this user only, and wait until the disk has it. Raises OSError, and TypeError for a tensor that
    the format does not know."""
    if part.missing is not None:
        raise OSError(part.missing)
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
    with Opened(path) as found:
        tensors = {name: found.tensors[name] for name in found.tensors if wanted(name)}
        return Part(tensors=tensors, texts=found.texts)


def _header(file: BinaryIO, path: Path) -> tuple[dict[str, Any], int]:
    """What it says, and where it ends."""
    left = os.fstat(file.fileno()).st_size - 8
    size = int.from_bytes(file.read(8), "little")
    if size > left:
        raise ValueError(f"{path} ends within its header of {size} bytes")
    header: dict[str, Any] = json.loads(file.read(size))
    return header, 8 + size


def _said(header: Mapping[str, Any]) -> dict[str, tuple[torch.dtype, list[int]]]:
    """What a header says of each tensor; raises what Python raises where it says something else."""
    said = {name: (_DTYPES[each["dtype"]], list(each["shape"])) for name, each in header.items()}
    for name, (_, shape) in said.items():
        if not all(type(size) is int and size >= 0 for size in shape):
            raise TypeError(f"the shape of {name} is {shape}")
    return said


def _bytes(tensor: Tensor) -> memoryview:
    return as_bytes(tensor.reshape(-1).view(torch.uint8)) if tensor.numel() else memoryview(b"")
