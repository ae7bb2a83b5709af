"""What other programs load of a job: its model as one safetensors file, and its optimizer's state as PyTorch's own.

    python -m engine.runtime.export < request.json > file

Of a checkpoint the model is what the job would have saved, had it ended there: under the names of its state_dict, with
buffers averaged over the workers. `model.load_state_dict(load_file(path), strict=True)` takes it. The optimizer's state
is put together from wherever it was updated: worker 0, or the servers' pieces. It is for the same class of torch.optim
made over `model.parameters()`; with groups, first what is in none, then each group that has parameters, in the job's
order. Where workers train alone it is worker 0's. What an outer optimizer of averages keeps is not in it.

A process of its own, because who asks loads no torch. Nothing of the user's code runs here. Memory: what is written,
and of each worker its buffers. On an error nothing is written; it is the last line on standard error, as JSON.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.checkpoint import part as parts
from engine.checkpoint.names import BUFFER, DONE, MODEL, OPTIMIZER, OTHER, PARAMETER, STATE
from engine.checkpoint.part import Part, nested
from engine.checkpoint.store import MANIFEST, SUFFIX, DamagedError
from engine.coordination.buffers import average
from engine.errors import UserError
from engine.exchange.room import optimizer_states, parameter_pieces
from engine.launch import Launch, shard_part, worker_part
from engine.plan.consistency import drifts
from engine.plan.optimizers import SCALAR_STATE
from engine.plan.plan import Wrapper
from engine.plan.units import Unit
from engine.regular import open_regular
from engine.runtime.going_on import divides
from engine.runtime.party import load_choices
from engine.state.optimizer_state import load_state
from engine.state.updates import HyperSchedule, apply_hyper, build_optimizer, plain_state

_PIECE = 2**20
_NICE = 10
"""Beside jobs that train."""


class SavedCut:
    """A checkpoint of a job."""

    def __init__(self, launch: Launch, step: int) -> None:
        """Raises UserError where there is none that is whole."""
        self._launch = launch
        self._store = launch.cuts()
        self.step = step
        if not (self._store.place(step) / MANIFEST).is_file():
            raise UserError("step", step, "the job has no checkpoint of this step (any more)", "Name another")
        try:
            self._store.verify(step, launch.cut_parts)
        except DamagedError as error:
            rule = f"this checkpoint is not whole: {error}"
            raise UserError("step", step, rule, "Name an older one") from None

    def model(self) -> dict[str, Tensor]:
        """The state_dict."""
        first = self._read(worker_part(0), PARAMETER, BUFFER, OTHER)
        if STATE not in first.texts:
            rule = "an earlier version wrote this checkpoint, without the names of the model's state_dict"
            raise UserError("step", self.step, rule, "Name a checkpoint of a job that was started since")
        self._put_served(first)
        averaged = self._averaged(first)
        places: dict[str, str | None] = json.loads(first.texts[STATE])
        _check_tensors([name for name, place in places.items() if place is None])
        # A module that has two names has its buffers under the first one alone.
        by_place = {f"{BUFFER}/{name}": held for name, held in averaged.items()}
        return {
            name: averaged[name] if name in averaged else by_place.get(place, first.tensors[place])
            for name, place in places.items()
            if place is not None
        }

    def optimizer(self) -> dict[str, Any]:
        """Its state_dict."""
        spec, first = self._launch.job.optimizer, self._read(worker_part(0), PARAMETER, OPTIMIZER)
        parameters = first.under(PARAMETER)
        optimizer = build_optimizer(spec, parameters.items())
        state, order = self._optimizer_state(first), list(parameters)
        in_order = sorted(state.items(), key=lambda item: order.index(item[0].rpartition("/")[0]))
        load_state(optimizer, parameters, dict(in_order))
        total = json.loads(first.texts[DONE]).get("total")
        if total is not None:
            apply_hyper(optimizer, HyperSchedule(spec, self._launch.job.schedule, total).at(self.step))
        return plain_state(optimizer)

    def whole(self) -> Part:
        """What a job with any number of workers and servers can begin with: parameters, buffers averaged over the
        workers and what the optimizer keeps of each parameter, by the names that worker 0's part has for them, and that
        part's texts."""
        first = self._read(worker_part(0), PARAMETER, BUFFER, OPTIMIZER)
        self._put_served(first)
        averaged, optimizer = self._averaged(first), self._optimizer_state(first)
        tensors = nested(
            {
                PARAMETER: first.under(PARAMETER),
                BUFFER: {name: averaged.get(name, held) for name, held in first.under(BUFFER).items()},
                OPTIMIZER: optimizer,
            }
        )
        return Part(tensors=tensors, texts=first.texts)

    def _put_served(self, first: Part) -> None:
        """Where workers drift, servers have what all have contributed, and worker 0 what it has read."""
        if not drifts(self._launch.consistency):
            return
        for unit, state in self._served():
            for segment, held in parameter_pieces(unit, state):
                whole = first.tensors[f"{PARAMETER}/{segment.parameter}"]
                whole.view(-1)[segment.start : segment.stop] = held

    def _averaged(self, first: Part) -> dict[str, Tensor]:
        """Buffers, by each of their names."""
        others = (worker_part(rank) for rank in range(1, self._launch.job.cluster.workers))
        return _averaged([first, *(self._read(name, BUFFER) for name in others)])

    def _optimizer_state(self, first: Part) -> dict[str, Tensor]:
        """What the optimizer keeps, by parameter and slot."""
        own = {**self._served_optimizer(first.under(PARAMETER)), **first.under(OPTIMIZER)}
        if not divides(self._launch):
            return own
        workers = range(1, self._launch.job.cluster.workers)
        others = [self._read(worker_part(rank), OPTIMIZER).under(OPTIMIZER) for rank in workers]
        return {
            name: held
            if name.rpartition("/")[2] in SCALAR_STATE
            else torch.cat([held, *(o[name] for o in others)])
            for name, held in own.items()
        }

    def _served_optimizer(self, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What servers keep beside pieces of `parameters`, put together. Of a piece that was never updated there is
        nothing, as if it had been zero."""
        found: dict[str, Tensor] = {}
        for unit, state in self._served():
            for segment, slot, held in optimizer_states(unit, state):
                name, whole = f"{segment.parameter}/{slot}", parameters[segment.parameter]
                if slot in SCALAR_STATE:
                    found[name] = torch.maximum(found[name], held) if name in found else held
                    continue
                if name not in found:
                    found[name] = torch.zeros(whole.shape, dtype=held.dtype)
                found[name].view(-1)[segment.start : segment.stop] = held
        return found

    def _served(self) -> Iterator[tuple[Unit, Mapping[str, Tensor]]]:
        """Each unit that a server updates, and what it has of it."""
        if isinstance(self._launch.plan, Wrapper):
            return
        by_shard = defaultdict(list)
        for choice in load_choices(self._launch).values():
            if choice.flow.answer == "parameters" and choice.unit.shard is not None:
                by_shard[choice.unit.shard].append(choice.unit)
        for shard, units in by_shard.items():
            state = self._read(shard_part(shard)).tensors
            for unit in units:
                yield unit, parts.under(state, str(unit.index))

    def _read(self, name: str, *prefixes: str) -> Part:
        """A party's part; of its tensors those under `prefixes`, without any all."""
        starts = tuple(f"{prefix}/" for prefix in prefixes) or ("",)
        return parts.read(
            self._store.place(self.step) / f"{name}{SUFFIX}", lambda full: full.startswith(starts)
        )


def ended_model(launch: Launch) -> tuple[dict[str, Tensor], int]:
    """The state_dict that the attempt has ended with, and after how many steps."""
    try:
        steps = json.loads(launch.summary(0).read_text())["steps"]
        with open_regular(launch.result / "model.pt") as file:
            state = torch.load(file, map_location="cpu", weights_only=True)
    except (OSError, ValueError, KeyError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        rule = f"what the job has ended with cannot be read: {str(error).splitlines()[0]}"
        raise UserError("step", None, rule, "Name the step of a checkpoint") from None
    _check_tensors([name for name, held in state.items() if not isinstance(held, Tensor)])
    return state, steps


def pieces(request: Mapping[str, Any]) -> Iterator[memoryview]:
    """The file that is asked for; all that may fail has been done before the first piece. `request`: an attempt's
    `directory`; the `step` of one of its job's checkpoints, or none: of the attempt's end; `what`: model or optimizer;
    `about`: more texts to be written into the former."""
    launch, step = Launch.read(Path(request["directory"])), request["step"]
    if request["what"] == "optimizer":
        if step is None:
            rule = "a job that has ended keeps its model and not its optimizer's state"
            raise UserError("step", None, rule, "Name the step of a checkpoint")
        buffer = io.BytesIO()
        torch.save(SavedCut(launch, step).optimizer(), buffer)
        whole = buffer.getbuffer()
        return (whole[start : start + _PIECE] for start in range(0, len(whole), _PIECE))
    if step is None:
        model, steps = ended_model(launch)
    else:
        model, steps = SavedCut(launch, step).model(), step
    texts = {"format": "pt", "step": str(steps), "of": "end" if step is None else "checkpoint"}
    contiguous = {name: held.detach().contiguous() for name, held in model.items()}
    for name, held in contiguous.items():
        if held.dtype == torch.complex128:
            raise UserError(
                "model", name, "is of complex128, which safetensors does not have", "Take model.pt"
            )
    return parts.pieces(Part(tensors=contiguous, texts={**request["about"], **texts}))


def _check_tensors(others: list[str]) -> None:
    if others:
        rule = "is no tensor, and safetensors holds nothing else"
        raise UserError("model", ", ".join(others), rule, "Take model.pt of a job that has ended")


def _averaged(workers: list[Part]) -> dict[str, Tensor]:
    """As `averaged_buffers` has them."""
    named = [_buffers(part) for part in workers]
    found = {}
    for name, own in named[0].items():
        values = [each[name] for each in named if name in each]
        if len(values) == len(named) and all((v.shape, v.dtype) == (own.shape, own.dtype) for v in values):
            found[name] = average(values)
    return found


def _buffers(part: Part) -> dict[str, Tensor]:
    """By each of their names."""
    held = part.under(BUFFER)
    said = json.loads(part.texts[MODEL])["buffers"]
    return {name: held[first] for name, (first, _) in said.items() if first is not None}


def _unreadable(request: Mapping[str, Any], error: Exception) -> UserError:
    """What was asked for is whole, as its sums say, and yet something in it is missing or of another shape."""
    why = (
        f"{error} is missing" if isinstance(error, KeyError) else (str(error) or repr(error)).splitlines()[0]
    )
    rule = f"its {request['what']} cannot be put together: {why}"
    remedy = "Name another checkpoint; one of another version, or that other code has written, is not read"
    return UserError("step", request["step"], rule, remedy)


def main() -> int:
    """Answer one request: 0, or 1 for an error."""
    os.nice(_NICE)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    request = json.load(sys.stdin)
    try:
        found = pieces(request)
        with out:
            for piece in found:
                out.write(piece)
    except BrokenPipeError:  # who has asked has gone
        return 1
    except (KeyError, OSError, RuntimeError, TypeError, UserError, ValueError) as error:
        refusal = error if isinstance(error, UserError) else _unreadable(request, error)
        print(json.dumps(refusal.to_dict()), file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
