"""A choice: what the plan says about one unit, with its mechanisms loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from engine.axes.codec import CODEC
from engine.axes.matrices import cut_rows
from engine.codec.base import Piece, UnitCodec
from engine.codec.draws import seed_of
from engine.codec.opening import opened
from engine.plan.description import layer_title
from engine.plan.flow import Flow
from engine.plan.plan import LayerPlan
from engine.plan.units import Unit
from engine.transport.message import Header


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What the plan says about one unit, with its mechanisms loaded."""

    unit: Unit
    layer: LayerPlan
    """The plan of its first layer; every layer of a bucket agrees on exchange, codec and order."""
    flow: Flow
    """What follows from that for what travels, and for where it is applied."""
    rank: Callable[[Unit, int], int]
    """(unit, step) -> priority of its messages; smaller leaves first."""
    layer_index: int
    """Forward position of its first layer, for counters and events."""
    seed: int
    """The job's."""

    @property
    def lossless(self) -> bool:
        """Whether what travels is the tensor itself, so that it can be received in place."""
        return "lossless" in CODEC[self.layer.codec].traits

    @property
    def answers_differences(self) -> bool:
        """Whether its server answers with what its parameters have moved by."""
        return self.flow.answer == "parameters" and self.layer.answers_differences

    def codec(self, sender: str) -> UnitCodec:
        """Opened for the unit on this party, with nothing remembered yet. `sender`: who encodes with it, "worker 1" or
        "shard 0"."""
        return opened(self.layer.encoding, self._piece(getattr(torch, self.unit.dtype), sender))

    def answer_codec(self, sender: str) -> UnitCodec:
        """Of such answers: nothing is remembered beside what receivers hold (`engine/codec/difference.py`)."""
        piece = self._piece(getattr(torch, self.unit.dtype), sender)
        return opened(self.layer.answer_encoding, piece, remembers=False)

    def codec_of(self, dtype: torch.dtype, sender: str) -> UnitCodec:
        """Opened for what is not the unit's elements, and travels in `dtype`: nothing is remembered of it."""
        piece = replace(self._piece(dtype, sender), rows=())
        return opened(self.layer.encoding, piece, remembers=False)

    def _piece(self, dtype: torch.dtype, sender: str) -> Piece:
        unit = self.unit
        seed = seed_of(self.seed, unit.index, sender)
        name = layer_title(unit.layers[0], kind="")
        return Piece(name=name, count=unit.count, dtype=dtype, rows=unit.rows, seed=seed)

    def extent(self, start: int, stop: int, message: memoryview) -> int:
        """Bytes of the message of the unit's elements [start, stop) that `message` begins with."""
        rows = cut_rows(self.unit.rows, start, stop)
        return self.layer.encoding.extent(self.unit.dtype, stop - start, message, rows)

    def priority(self, step: int) -> int:
        """Of the unit's messages in `step`."""
        return self.rank(self.unit, step)

    def header(
        self,
        kind: int,
        step: int,
        *,
        origin: int,
        lane: int,
        queued_ns: int,
        payload: Sequence[memoryview] = (),
        part: int = 0,
        version: int = 0,
        meta: bytes = b"",
    ) -> Header:
        """Of a message about the unit that has this payload."""
        return Header(
            kind=kind,
            origin=origin,
            lane=lane,
            step=step,
            unit=self.unit.index,
            part=part,
            layer=self.layer_index,
            priority=self.priority(step),
            queued_ns=queued_ns,
            payload_bytes=sum(map(len, payload)),
            version=version,
            meta=meta,
        )
