"""Checkpoints in the processes of a job: what each party captures at a cut (`going_on.py`: what it goes on from).

A cut is made after every so many steps, the same on all parties, and stops nobody for longer than its own copy takes:
workers wait until they hold what the step has made, as before an evaluation, and copy what they have; shards copy each
unit before the first contribution behind the cut (`engine/checkpoint/shard_cuts.py`). What is written:

    worker 0      parameters, the optimizer where workers update, the outer optimizer of averages: all hold the same,
                  but for the optimizer where they train alone, which is each worker's own, and where PyTorch
                  divides it (fsdp), of which each worker has its part
    every worker  buffers, what is frozen and which modules are in evaluation mode, what its codecs remember, random
                  states, and how far it has come
    every shard   the optimizer where servers update, what its codecs remember, and where workers are told differences
                  the parameters from which these are
Schedules and data are where the step says. Not captured: what a model, a data set or a loss keeps in attributes of
Python, and generators that they have made themselves.
Memory: one more copy of what is captured until it is on the disk, but for an offloaded optimizer's state, which is
copied on the disk and read from it a tensor at a time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import nn

from engine.checkpoint import model_state
from engine.checkpoint.names import (
    BUFFER,
    DONE,
    MODEL,
    OPTIMIZER,
    OTHER,
    OUTER,
    PARAMETER,
    RANDOM,
    STATE,
    exchange,
)
from engine.checkpoint.part import Part
from engine.checkpoint.preemption import Preemption
from engine.checkpoint.rhythm import Rhythm, Word, first_meeting
from engine.checkpoint.shard_cuts import ShardCuts
from engine.checkpoint.writer import Writer
from engine.consistency.policies import policy_of
from engine.errors import UserError
from engine.launch import PATIENCE_S, Launch, shard_part, worker_part
from engine.plan.consistency import drifts, trains_alone
from engine.runtime.going_on import Held, own_optimizers
from engine.runtime.meeting import Meeting, Pause
from engine.runtime.party import home_of
from engine.runtime.trainer import Done
from engine.state import random_state
from engine.transport.endpoint import Endpoint


def meeting_of(launch: Launch, endpoint: Endpoint, rank: int, going_s: Callable[[], float]) -> Meeting | None:
    """Where worker `rank` meets the others for a word about checkpoints; None: the job has none. `going_s`: see
    Meeting."""
    if not launch.has_cuts:
        return None
    return Meeting(
        endpoint,
        rank=rank,
        workers=launch.job.cluster.workers,
        shards=[home_of(launch, shard) for shard in launch.cut_shards],
        deadline_s=launch.deadline_s + PATIENCE_S,
        going_s=going_s,
    )


def shard_cuts(launch: Launch, index: int, units: Mapping[int, object]) -> ShardCuts | None:
    """Of server shard `index` with these units."""
    if not launch.has_cuts or not units:
        return None
    writer = Writer(launch.cuts(), shard_part(index))
    every = None if drifts(launch.consistency) else launch.cut_spec.every_steps
    return ShardCuts(writer, every=every, units=units.keys(), first=launch.resumed or 0)


class NoCuts:
    """The job has no checkpoints."""

    def due(self, steps: int) -> bool:
        """Never."""
        return False

    def take(self, done: Done) -> bool:
        raise AssertionError(f"no cut is due after {done.steps} steps")

    def leaving(self, *, stopped: bool) -> bool:
        """Never."""
        return False

    def close(self) -> None:
        """Nothing is written."""


class WorkerCuts:
    """One worker's side of the job's checkpoints."""

    def __init__(
        self,
        launch: Launch,
        rank: int,
        model: nn.Module,
        held: Held,
        device: torch.device,
        total_steps: int,
        meeting: Meeting,
    ) -> None:
        """Raises UserError for a model that keeps what no checkpoint holds."""
        _check(launch, model)
        spec, begun = launch.cut_spec, launch.resumed or 0
        period = launch.consistency.exchange_period if trains_alone(launch.consistency) else 1
        self._every = spec.every_steps
        self._meeting = meeting
        self._rhythm = Rhythm(every_s=spec.every_seconds, period=period, begun=begun, now_s=time.monotonic())
        self._next = first_meeting(begun, period)
        self._word = Word()
        self._drifts = drifts(launch.consistency)
        self._ahead = policy_of(launch.consistency, launch.job.cluster.workers).most_ahead
        self._preemption = Preemption(launch.directory)
        self._total = total_steps
        self._last = begun
        """The last cut: each has a greater number than the one before it."""
        self._model = model
        self._built = model_state.Built(model)
        self._held = held
        self._device = device
        self._first = rank == 0
        self._own_optimizer = self._first or own_optimizers(launch)
        self._writer = Writer(
            launch.cuts(), worker_part(rank), all_names=launch.cut_parts if self._first else ()
        )

    def due(self, steps: int) -> bool:
        """Whether there is a cut after so many steps; none after the last. In lockstep collective."""
        if steps >= self._total:
            return False
        if not self._drifts:
            return self._wanted(steps, self._meeting.hear)
        if self._first and self._meeting.pause is None and self._wanted(steps, lambda say: say()):
            cut = steps if self._ahead is None else steps + self._ahead + 2
            if cut < self._total:
                self._meeting.say_pause(Pause(cut, 0 if self._ahead is None else cut, self._word.ends))
        pause = self._meeting.pause
        return pause is not None and steps >= pause.after

    def leaving(self, *, stopped: bool) -> bool:
        """Whether there is a cut behind this worker's last step, while others are in theirs. Where it has `stopped`
        before, or workers wait for one another, no cut begins any more: all are at their end."""
        if not self._drifts:
            return False
        begins = self._first and self._ahead is None and not stopped
        return not self._meeting.may_leave(self._make_room if begins else lambda: None)

    def _make_room(self) -> None:
        """Behind worker 0's last step its clock asks for nothing more, but a person may."""
        if self._preemption.asked(time.monotonic()):
            self._meeting.say_pause(Pause(max(self._total, self._last + 1), 0, ends=True))

    def _wanted(self, steps: int, hear: Callable[[Callable[[], Word]], Word]) -> bool:
        """Whether a cut is wanted after so many steps."""
        self._word = Word()
        if steps >= self._next:
            self._word = hear(partial(self._say, steps))
            self._next = self._word.next
        return self._word.cut or (self._every is not None and steps % self._every == 0)

    def _say(self, steps: int) -> Word:
        now_s = time.monotonic()
        return self._rhythm.word(steps, now_s, asked=self._preemption.asked(now_s))

    def take(self, done: Done) -> bool:
        """Capture, and begin to write; this worker holds what the last step has made. Answers whether training goes on.
        Collective. Raises TrainingError for a model that has changed so that nobody could go on with it."""
        self._built.check(self._model, done.steps)
        self._writer.wait()
        cut, ends = self._hold(done.steps)
        held, part = self._held, Part()
        last = done.last
        part.texts[DONE] = json.dumps(
            {
                "steps": done.steps,
                "samples": done.samples,
                "last": None if last is None else list(last),
                "total": self._total,
            }
        )
        part.texts[MODEL] = model_state.described(self._model)
        part.put(RANDOM, random_state.state(self._device))
        part.put(BUFFER, dict(self._model.named_buffers()))
        if self._first:
            part.put(PARAMETER, dict(self._model.named_parameters()))
            places, others = model_state.places_of_state(
                self._model, parameter=PARAMETER, buffer=BUFFER, other=OTHER
            )
            part.texts[STATE] = json.dumps(places)
            part.put(OTHER, others)
            if held.contributions is not None:
                part.put(OUTER, held.contributions.state())
        if held.updater is not None and self._own_optimizer:
            part.put(OPTIMIZER, held.updater.state())
        for position, each in enumerate(held.distinct):
            part.put(exchange(position), each.state())
        self._writer.write(cut, part)
        return not (ends and self._ends(cut))

    def _hold(self, steps: int) -> tuple[int, bool]:
        """Nobody goes on before shards have captured, but for what these capture by themselves. Answers the cut, and
        whether the attempt is to end with it."""
        self._rhythm.cut(time.monotonic())
        if self._drifts:
            pause = self._meeting.stop(steps)
            self._last = pause.cut
            return pause.cut, pause.ends
        if self._word.cut:
            self._meeting.capture(steps)
        return steps, self._word.ends

    def _ends(self, cut: int) -> bool:
        """Whether the attempt ends with the cut: it is whole."""
        self._writer.wait()
        word = self._meeting.hear(lambda: Word(ends=self._writer.whole))
        if self._first and word.ends:
            self._preemption.done(cut)
        elif self._first:
            self._preemption.failed(time.monotonic())
        return word.ends

    def close(self) -> None:
        """Training is over."""
        self._writer.close()


def worker_cuts(
    launch: Launch,
    rank: int,
    model: nn.Module,
    held: Held,
    device: torch.device,
    total_steps: int,
    meeting: Meeting | None,
) -> NoCuts | WorkerCuts:
    """See `WorkerCuts`."""
    if meeting is None:
        return NoCuts()
    return WorkerCuts(launch, rank, model, held, device, total_steps, meeting)


def _check(launch: Launch, model: nn.Module) -> None:
    """Raises UserError where a module has a state of its own, which may be anything."""
    asked = launch.cut_spec.asked
    assert asked is not None
    for name, module in model.named_modules():
        if type(module).get_extra_state is not nn.Module.get_extra_state:
            raise UserError(
                f"checkpoint.{asked[0]}",
                asked[1],
                f"{name or 'the model'} has a state of its own (get_extra_state), which is not captured yet",
                f"Keep it in buffers, or leave checkpoint.{asked[0]} out",
            )
