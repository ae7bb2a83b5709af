"""A straggler: a worker that computes more slowly than it could, because its job says so (`JobSpec.faults`).

What trains is slowed where its record is made: whenever a span of a forward or backward pass ends (a layer's, or the
rest of the pass), the worker waits `factor - 1` times what it has computed since the last one, before the span's end is
noted and before a gradient leaves. So the span lasts `factor` times as long, is computation and no exposed wait, and
whoever needs the layer's gradient gets it as late as from a slow machine, under every strategy, in a stage, and in
PyTorch's own wrappers alike. What a rehearsal replays takes the profile's time times the factor, in the same way.

A sleep mostly ends a little late; what it was late, the next ones are shorter, so that sums are right.

On CUDA the host has to know what was computed, and so waits for the device at the end of every span: a straggler does
not run ahead of its device, which by itself makes small layers a little slower. FSDP waits for its peers inside its
passes without saying so; on a CPU the processor's time tells computation from that, on CUDA nothing does.

Not to be taken for `faults.py`, with which tests kill and hang processes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import torch

from engine.plan.faults import StragglerSpec

LEAST_NS = 20_000
"""Shorter waits are put off until they come to so much: the system's own delay is longer."""


class Slowness:
    """By how much one worker is slower in each step. Two of the same job and worker agree in every step."""

    def __init__(self, spec: StragglerSpec, seed: int) -> None:
        """`seed`: the job's."""
        self._spec = spec
        self._seed = seed

    def factor(self, step: int) -> float:
        """Every pass of the step takes so many times as long; at least 1."""
        spec = self._spec
        if not spec.jitter:
            return spec.factor
        drawn = np.random.default_rng((self._seed, spec.worker, step)).standard_normal()
        return max(1.0, spec.factor * math.exp(spec.jitter * drawn))

    def pause_ns(self, step: int) -> int:
        """How long the worker stands still before it computes the step."""
        every = self._spec.pause_every_steps
        return round(self._spec.pause_s * 1e9) if every and step > 0 and step % every == 0 else 0


class Straggler:
    """Waits as much longer as a worker is slower; told by the record of what it computes (`Slowing`)."""

    def __init__(
        self,
        slowness: Slowness,
        step: Callable[[], int],
        computing_ns: Callable[[], int] = time.monotonic_ns,
        *,
        waits_count: bool = True,
        sleep: Callable[[float], None] = time.sleep,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`step()`: the one under way. `computing_ns()`: a clock that goes on while the worker computes, and, where
        `waits_count`, while it waits for others, too."""
        self._slowness = slowness
        self._step = step
        self._computing_ns = computing_ns
        self._waits_count = waits_count
        self._sleep = sleep
        self._now_ns = now_ns
        self._within = False
        """A pass is under way."""
        self._since_ns: int | None = None
        """From here on, by that clock, what is computed has not been made longer; None: nothing is that counts."""
        self._open_ns = 0
        """What was computed before, and has not either."""
        self.computed_ns = 0
        """What has been made longer, over all steps."""
        self.waited_ns = 0
        """By how much."""
        self._owed_ns = 0.0
        """How long is still to be waited; below zero where a sleep ended late."""
        self._known = -1
        """The step that `_factor` is of."""
        self._factor = 1.0

    def begins(self) -> None:
        """See Slowing."""
        self._within, self._since_ns, self._open_ns = True, self._computing_ns(), 0

    def ends(self) -> None:
        """See Slowing."""
        self._within, self._since_ns = False, None

    def interrupted(self) -> None:
        """See Slowing."""
        self._since_ns = self._until_now()

    def goes_on(self) -> None:
        """See Slowing."""
        self._since_ns = self._computing_ns() if self._within else None

    def waited(self, duration_ns: int) -> None:
        """See Slowing."""
        if self._waits_count and self._since_ns is not None:
            self._since_ns += duration_ns

    def stretch(self) -> None:
        """See Slowing."""
        self._until_now()
        if (step := self._step()) != self._known:
            self._known, self._factor = step, self._slowness.factor(step)
            self._owed_ns += self._slowness.pause_ns(step)
        self._owed_ns += (self._factor - 1) * self._open_ns
        self.computed_ns += self._open_ns
        self._open_ns = 0
        if self._owed_ns >= LEAST_NS:
            start_ns = self._now_ns()
            self._sleep(self._owed_ns / 1e9)
            slept_ns = self._now_ns() - start_ns
            self._owed_ns -= slept_ns
            self.waited_ns += slept_ns
        self.goes_on()

    def _until_now(self) -> int:
        now_ns = self._computing_ns()
        if self._since_ns is not None:
            self._open_ns += now_ns - self._since_ns
        return now_ns


def computing_clock(device: torch.device, *, sharded: bool) -> tuple[Callable[[], int], bool]:
    """What tells how long a worker has computed, in ns, and whether it counts waits for others, too. `sharded`: under
    FSDP, which waits inside its passes."""
    if device.type == "cuda":

        def caught_up() -> int:
            torch.cuda.synchronize(device)
            return time.monotonic_ns()

        return caught_up, True
    if sharded:
        return time.thread_time_ns, False
    return time.monotonic_ns, True


def lengthening(slowness: Slowness, step: Callable[[], int]) -> Callable[[float], float]:
    """Of a rehearsal: seconds that the profile says -> seconds that the worker takes; the first ones of a step have its
    pause before them."""
    known = -1

    def longer(seconds: float) -> float:
        nonlocal known
        now, pause_s = step(), 0.0
        if now != known:
            known, pause_s = now, slowness.pause_ns(now) / 1e9
        return pause_s + seconds * slowness.factor(now)

    return longer
