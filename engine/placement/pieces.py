"""What travels on the edge between workers and a device.

A pass of a worker is one *piece*: the activation of its samples where the model is cut, their targets, and what the
loss is to be multiplied by. Every worker sends one piece in every pass, an empty one where it has no samples, so that
the device knows what to wait for. The answer is the loss and, in training, the gradient of the activation.

Activations travel in the type that the model's description says, or as the edge's codec makes them (`edge_codec.py`);
under autocast they may have been computed in less.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.placement.edge_codec import EdgeCodec
from engine.protocol.messages import Lane, Message, Payload
from engine.state.choice import Choice
from engine.state.updates import Hyper
from engine.tensor_bytes import as_bytes, as_tensor
from engine.transport.message import Header


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One worker's part of one pass, as the device gets it."""

    rank: int
    step: int
    """The training step; -1 in an evaluation."""
    scale: float
    """What the sum of its losses is to be multiplied by."""
    last: bool
    """Whether it is of the step's last micro-batch."""
    hyper: Hyper | None
    """From worker 0, with the last micro-batch: the optimizer's hyper-parameters of the step."""
    activation: Tensor | None
    """(n, ...) on the host; None where the worker has no samples."""
    targets: Tensor | None


def pack(*, scale: float, last: bool, hyper: Hyper | None, shape: tuple[int, ...], targets: Tensor) -> bytes:
    """What a piece's message says beside its activation: a line of JSON, then the targets as they lie in memory. They
    are a few bytes per sample, and count as overhead."""
    plain = targets.detach().cpu().contiguous()
    about = {
        "scale": scale,
        "last": last,
        "hyper": hyper,
        "shape": shape,
        "targets": [list(plain.shape), str(plain.dtype).removeprefix("torch.")],
    }
    return json.dumps(about).encode() + b"\n" + (bytes(as_bytes(plain.view(-1))) if plain.numel() else b"")


def unpack(header: Header, received: Tensor | None, codec: EdgeCodec) -> Piece:
    """The inverse. `received`: the payload's bytes, in memory that stays."""
    line, _, rest = header.meta.partition(b"\n")
    about = json.loads(line)
    shape, kind = about["targets"]
    activation = targets = None
    if received is not None:
        activation = codec.decode(header, received, about["shape"])
        targets = as_tensor(memoryview(bytearray(rest)), getattr(torch, kind)).view(shape)
    return Piece(
        rank=header.origin,
        step=header.step if header.layer >= 0 else -1,
        scale=about["scale"],
        last=about["last"],
        hyper=about["hyper"],
        activation=activation,
        targets=targets,
    )


class Room:
    """Memory that payloads are received into, for a receiver that keeps them."""

    def __init__(self) -> None:
        self._given: dict[tuple[int, int], Tensor] = {}

    def place(self, header: Header) -> list[memoryview]:
        """Fresh memory for a message of (origin, part)."""
        room = self._given[header.origin, header.part] = torch.empty(header.payload_bytes, dtype=torch.uint8)
        return [as_bytes(room)]

    def take(self, header: Header, payload: Payload) -> Tensor | None:
        """The message's bytes; a copy where they came from this process. None for an empty payload."""
        placed = self._given.pop((header.origin, header.part), None)
        if placed is not None or header.payload_bytes == 0:
            return placed
        return as_tensor(payload, torch.uint8).clone()


def edge_header(
    choice: Choice,
    kind: Message,
    lane: Lane,
    *,
    origin: int,
    step: int,
    turn: int,
    now_ns: int,
    payload: list[memoryview],
    meta: bytes,
) -> Header:
    """The header of a message on the edge. What travels in an evaluation (step -1) is booked on no layer."""
    return Header(
        kind=kind,
        lane=lane,
        origin=origin,
        step=max(step, 0),
        unit=choice.unit.index,
        part=turn,
        layer=choice.layer_index if step >= 0 else -1,
        priority=choice.priority(max(step, 0)),
        queued_ns=now_ns,
        payload_bytes=sum(map(len, payload)),
        meta=meta,
    )
