"""What an edge's codec does to the activations that cross it, and to their gradients on the way back.

Each micro-batch's message is encoded by itself: no later one makes up for what it loses, so an edge takes codecs of
which a message alone is near what it stands for (trait `close`), and none keeps a residual. The gradient is that of the
activation as it arrived: what rounding has done to it counts as part of the model.
What travels in an evaluation is not encoded: measured is the model as it is saved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.state.choice import Choice
from engine.state.recording import Recording
from engine.tensor_bytes import as_bytes
from engine.transport.message import Header


class EdgeCodec:
    """One party's end of an edge. It may encode in one thread and decode in another: nothing is remembered."""

    def __init__(self, choice: Choice, sender: str, recording: Recording) -> None:
        """`choice`: the edge's unit. `sender`: this party."""
        self._choice = choice
        self._recording = recording
        self._dtype: torch.dtype = getattr(torch, choice.unit.dtype)
        self._codec = choice.codec_of(self._dtype, sender)

    def encode(self, tensor: Tensor, step: int) -> list[memoryview]:
        """What travels for a tensor on any device, in the edge's type. `step`: -1 in an evaluation. Raises
        TrainingError where the codec cannot express a value."""
        flat = tensor.detach().to(device="cpu", dtype=self._dtype).contiguous().view(-1)
        if self._is_plain(training=step >= 0):
            return [as_bytes(flat)]
        with self._recording.encoding(self._choice, step):
            return [as_bytes(part) for part in self._codec.encode([flat], [0])]

    def decode(self, header: Header, received: Tensor, shape: Sequence[int]) -> Tensor:
        """The tensor of which a message's bytes, 1-D and in memory that stays, were made; on the host."""
        if self._is_plain(training=header.layer >= 0):
            return received.view(self._dtype).view(shape)
        flat = torch.empty(math.prod(shape), dtype=self._dtype)
        with self._recording.decoding(self._choice, header.step):
            self._codec.decode(as_bytes(received), [flat])
        return flat.view(shape)

    def _is_plain(self, *, training: bool) -> bool:
        return self._choice.lossless or not training
