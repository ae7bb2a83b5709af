"""Evaluation and results: what people train for.

For an evaluation, and in the saved state, buffers are averaged over the workers (`engine/coordination/buffers.py`). The
test data are shared out over the workers. An evaluation leaves no trace: modes and buffers are afterwards what they
were.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from engine.coordination.buffers import averaged_buffers, looking_with
from engine.coordination.gather import Gather
from engine.errors import TrainingError
from engine.inputs.batch import count, of_type, on
from engine.inputs.reading import read
from engine.inputs.sharding import shard
from engine.inputs.source import Source
from engine.inputs.task import weight
from engine.models.modes import evaluating
from engine.regular import PRIVATE
from engine.runtime.trainer import PassLoss

_BATCH = 256
"""Samples at a time, where each has one target."""
_TARGETS = 1024
"""Targets at a time: each of a sentence's words has a score for every word of the vocabulary."""


class Evaluator:
    """Measures accuracy and loss on the test data, with averaged buffers."""

    def __init__(
        self,
        *,
        model: nn.Module,
        loss: PassLoss,
        test: Source,
        gather: Gather,
        team: Gather,
        rank: int,
        workers: int,
        device: torch.device,
        dtype: torch.dtype | None,
    ) -> None:
        """`model`: what has to be set to evaluation, and whose buffers are averaged over the `team` of those that have
        them. `gather`: all workers. The test data are shared out to `rank` of `workers`."""
        self._model = model
        self._loss = loss
        self._test = test
        self._gather = gather
        self._team = team
        self._mine = shard(np.arange(len(test)), rank, workers)
        self._most = len(shard(np.arange(len(test)), 0, workers))
        self._device = device
        self._dtype = dtype

    def __call__(self, steps: int) -> tuple[float | None, float]:
        """(accuracy, mean loss per target) of the test data, the same on every worker; accuracy is None where the
        task counts nothing. Collective."""
        averaged = averaged_buffers(self._model, self._team)
        with evaluating(self._model), looking_with(self._model, averaged):
            totals = self._gather.sum(self._measure())
        loss, correct, counted, targets = totals
        return (correct / targets if counted else None), loss / targets

    @torch.no_grad()
    def _measure(self) -> list[float]:
        loss = correct = counted = 0.0
        weighed = 0
        one = self._test.batch(self._mine[:1])[1]
        each = one.numel() if isinstance(one, Tensor) else count(one)
        batch = max(1, min(_BATCH, _TARGETS // max(1, each)))
        for start in range(
            0, self._most, batch
        ):  # equally often on every worker, the last time perhaps with nothing
            inputs, targets = read(self._test, self._mine[start : start + batch])
            result = self._loss(on(self._device, of_type(self._dtype, inputs)), on(self._device, targets))
            if result is None:
                continue
            weighed += weight(targets)
            loss += float(result.total)
            if result.correct is not None:
                correct += float(result.correct)
                counted = 1.0
        return [loss, correct, counted, float(weighed)]


def save_state(
    model: nn.Module, gather: Gather, path: Path | None, elsewhere: Mapping[str, Any] | None = None
) -> None:
    """Write the trained state_dict, with averaged buffers, as plain PyTorch loads it. What a module's `get_extra_state`
    answers may be anything, and stays as it is.

    Collective; `path` on worker 0. `elsewhere`: where `model` is only a part, the whole state as it is without that.
    """
    state = _state(model, gather)
    if path is None:
        return
    if elsewhere is not None:
        state = {name: state.get(name, tensor) for name, tensor in elsewhere.items()}
    write_state({n: held.cpu() if isinstance(held, Tensor) else held for n, held in state.items()}, path)


def copied_state(model: nn.Module, gather: Gather) -> dict[str, Any]:
    """What `save_state` would write, as it is now: it stays so while training goes on. Collective."""
    return {n: h.cpu().clone() if isinstance(h, Tensor) else h for n, h in _state(model, gather).items()}


def write_state(state: Mapping[str, Any], path: Path) -> None:
    """Write a state_dict so that there is the whole of it or none. Raises TrainingError where the disk has no room, of
    which torch does not speak."""
    temporary = path.with_suffix(".tmp")
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE))
    try:
        torch.save(dict(state), temporary)
    except RuntimeError as error:
        temporary.unlink(missing_ok=True)
        needed = sum(held.nbytes for held in state.values() if isinstance(held, Tensor))
        free = shutil.disk_usage(path.parent).free
        if free < needed:
            raise TrainingError(
                f"the trained model has {needed} bytes, and {free} are free under {path.parent}. Make room there, and "
                "train again"
            ) from error
        raise
    temporary.replace(path)


def _state(model: nn.Module, gather: Gather) -> dict[str, Any]:
    averaged = averaged_buffers(model, gather)
    return {name: averaged.get(name, _whole(tensor)) for name, tensor in model.state_dict().items()}


def _whole(tensor: Any) -> Any:
    """What a sharded parameter is a part of (collective); anything else itself."""
    if not isinstance(tensor, Tensor):
        return tensor
    gather: Callable[[], Tensor] = getattr(tensor, "full_tensor", tensor.detach)
    return gather().detach()
