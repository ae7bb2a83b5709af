"""A choice: what the plan says about one unit, with its mechanisms loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from engine.axes.codec import CODEC
from engine.axes.matrices import cut_rows
from engine.catalogue import NoOptions, found
from engine.codec.base import Piece, SummedCodec, UnitCodec
from engine.codec.draws import seed_of
from engine.codec.fp32 import FullPrecision
from engine.codec.opening import opened
from engine.plan.description import DTYPE_BYTES, layer_title
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
        """Whether what travels is a tensor itself, so that it can be received in place: the unit's elements, or the
        numbers that are summed in their place."""
        return bool(self.unit.phases) or "lossless" in CODEC[self.layer.codec].traits

    @property
    def answers_differences(self) -> bool:
        """Whether its server answers with what its parameters have moved by."""
        return self.flow.answer == "parameters" and self.layer.answers_differences

    def codec(self, sender: str, *, sums: bool = False) -> UnitCodec:
        """Opened for the unit on this party, with nothing remembered yet: for the messages of its phases, where it has
        any. `sender`: who encodes with it, "worker 1" or "shard 0". `sums`: what it encodes are sums on their way
        back."""
        if self.unit.phases:
            return FullPrecision(self._piece(getattr(torch, self.unit.dtype), sender), NoOptions())
        return opened(self.layer.encoding, self._piece(getattr(torch, self.unit.dtype), sender, sums=sums))

    def summed(self) -> SummedCodec:
        """Of a unit with phases, on a worker: what makes the numbers that are summed, with nothing remembered yet."""
        row, way = CODEC[self.layer.codec], self.layer.encoding
        assert row.summed is not None, f"{row.name} sums nothing in phases"
        piece = self._piece(getattr(torch, self.unit.dtype), "every worker")
        codec: SummedCodec = found(row.summed)(piece, way.options)
        return codec

    def answer_codec(self, sender: str) -> UnitCodec:
        """Of such answers: nothing is remembered beside what receivers hold (`engine/codec/difference.py`)."""
        piece = self._piece(getattr(torch, self.unit.dtype), sender)
        return opened(self.layer.answer_encoding, piece, remembers=False)

    def codec_of(self, dtype: torch.dtype, sender: str) -> UnitCodec:
        """Opened for what is not the unit's elements, and travels in `dtype`: nothing is remembered of it."""
        piece = replace(self._piece(dtype, sender), rows=())
        return opened(self.layer.encoding, piece, remembers=False)

    def _piece(self, dtype: torch.dtype, sender: str, *, sums: bool = False) -> Piece:
        unit = self.unit
        seed = seed_of(self.seed, unit.index, sender)
        name = layer_title(unit.layers[0], kind="")
        return Piece(name=name, count=unit.count, dtype=dtype, rows=unit.rows, seed=seed, sums=sums)

    def extent(self, start: int, stop: int, message: memoryview) -> int:
        """Bytes of the message of the unit's elements [start, stop) that `message` begins with, or of the numbers that
        are summed in their place."""
        if self.unit.phases:
            return (stop - start) * DTYPE_BYTES[self.unit.dtype]
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
