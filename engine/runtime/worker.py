"""The worker process: builds its replica, joins the others, trains, and leaves the result."""

from __future__ import annotations

import contextlib
import gc
import os
import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from engine.coordination.buffers import agree_on_buffers
from engine.coordination.gather import Gather
from engine.errors import TrainingError, UserError
from engine.launch import Launch, write_json
from engine.plan.cluster import Party
from engine.plan.plan import Wrapper
from engine.runtime import device_memory
from engine.runtime.assembly import Assembly
from engine.runtime.cuda_clock import span_clock
from engine.runtime.cuts import worker_cuts
from engine.runtime.evaluation import Evaluator, copied_state, save_state, write_state
from engine.runtime.exchanged import heard, held_versions, tells_of_loss
from engine.runtime.exhausted import out_of_memory
from engine.runtime.faults import Faults
from engine.runtime.initial import InitialState, share, untrained
from engine.runtime.losses import may_lose_workers, samples_contributed
from engine.runtime.party import PartyBase
from engine.runtime.place import Place
from engine.runtime.refused import refused_by_pytorch
from engine.runtime.rejoin import OVER, UNTRAINED
from engine.runtime.servers import end_training, tell_length
from engine.runtime.straggler import Slowness, Straggler, computing_clock
from engine.runtime.subject import Subject, rehearsal_summary, slowness_of
from engine.runtime.trainer import Meanwhile, Measured, Trainer, TrainingEnd
from engine.state.whereabouts import Whereabouts
from engine.telemetry.memory import MemorySampler
from engine.telemetry.processors import ProcessorSampler


class Worker:
    """One worker of a job, from start to result."""

    def __init__(self, launch: Launch, party: Party, incarnation: int = 0) -> None:
        self._launch = launch
        self._base = PartyBase(launch, party, incarnation)
        self._parts = Assembly(launch, self._base)
        self._faults = Faults() if incarnation else Faults.from_environment(party.name)
        self._slowing: Straggler | None = None
        self._goes_on = launch.job.cluster.worker_loss != "end"
        """Whether others may be lost: then nothing is collective once training has begun."""
        self._reached: dict[str, Any] | None = None
        """The state that was good enough, where workers drift."""

    def run(self) -> None:
        """Train and write the result. Raises what went wrong first, after telling the peers."""
        with contextlib.suppress(OSError):  # a full disk: others will say so
            self._base.recording.whereabouts = Whereabouts(self._launch.whereabouts(self._base.party))
        try:
            with self._base, self._memory_sampled():
                self._run()
        except Exception as error:
            base = self._base
            exhausted = out_of_memory(error, self._launch, base.party, base.recording)
            if exhausted is not None:
                raise exhausted from error
            if isinstance(error, UserError | TrainingError):
                raise
            first = self._base.endpoint.failure  # a native collective breaks when a peer gives up
            if first is not None and first is not error:
                raise first from error
            plan = self._launch.plan
            sharded = isinstance(plan, Wrapper) and plan.runner == "fsdp"
            refused = refused_by_pytorch(error, self._base.recording.step, sharded=sharded)
            if refused is not None:
                raise refused from error
            raise

    def _memory_sampled(self) -> AbstractContextManager[object]:
        if not self._launch.record:
            return contextlib.nullcontext()
        recording, device = self._base.recording, self._parts.device
        recording.memory.allocated = device_memory.allocated(device)
        transit = recording.memory.transit.bytes
        return contextlib.closing(
            MemorySampler(recording.recorder, lambda: recording.step, device_memory.sampled(device), transit)
        )

    def _processors_sampled(self) -> AbstractContextManager[object]:
        """By one process for all of the machine."""
        if not self._launch.record or self._parts.rank:
            return contextlib.nullcontext()
        recording = self._base.recording
        return contextlib.closing(ProcessorSampler(recording.recorder, lambda: recording.step))

    def after_step(self, step: int) -> None:
        """Between two steps, in the thread that trains: where tests put faults, and a benchmark looks around."""
        self._faults.after_step(step)

    def _run(self) -> None:
        base, parts = self._base, self._parts
        job = parts.job
        seed_everything(job.training.seed, job.training.deterministic)
        subject = parts.subject()
        loader = parts.loader(subject)
        parts.saved.check(loader.steps)
        place = parts.place(subject)
        initial, checksum = self._first_values(place, subject)
        model = place.model.to(parts.device)
        subject = replace(subject, model=model, parts=None)  # what is computed elsewhere goes
        if parts.rank == 0:
            tell_length(base.endpoint, base.servers, loader.steps)
        replica = parts.replica(place, model, initial, loader.steps)
        initial.forget()
        cuts = worker_cuts(
            self._launch, parts.rank, model, parts.held, parts.device, loader.steps, parts.meeting
        )
        passes, measure = place.open(replica, loader.steps)
        gc.collect()
        gc.freeze()  # what is here now is here to stay: the collector need not look at it again and again
        first = parts.join_again(checksum) if base.incarnation else self._ready(checksum)
        if first is None:
            base.part()
            return
        base.recording.spans = span_clock(base.clock.now_ns, parts.device)
        slowness = slowness_of(job, parts.rank)
        if slowness is not None and subject.pace is None:
            base.recording.slowing = self._slowing = self._straggler(slowness)
        # Random masks differ by rank, and are not those again that a worker had before it was lost.
        life = parts.rank + (base.incarnation + parts.saved.lives) * job.cluster.workers
        seed_everything((job.training.seed + 1 + life) % 2**32, job.training.deterministic)
        done = parts.saved.begin(first, model, parts.device, base.recorder)
        evaluator = partial(
            Evaluator,
            model=model,
            loss=measure,
            test=subject.test,
            device=parts.device,
            dtype=parts.dtype,
        )
        trainer = Trainer(
            job=job,
            replica=replica,
            passes=passes,
            loader=loader,
            recording=base.recording,
            evaluate=self._at_the_end(evaluator, place),
            meanwhile=self._meanwhile(evaluator, model),
            begins=parts.begins(),
            after_step=self.after_step,
            cuts=cuts,
        )
        with self._processors_sampled():  # now that all of the job's processes are there
            outcome = trainer.train(done)
        cuts.close()
        elsewhere = place.end()
        if subject.pace is None and not outcome.preempted:
            with replica.common():
                self._save(model, self._alone() if self._goes_on else place.team, elsewhere)
        replica.close()
        parts.close_shard()
        if parts.rank == 0:
            end_training(base.endpoint, base.servers)
            base.rendezvous.publish(OVER, "")
        if self._goes_on:
            steps = heard(parts.exchanges.values(), parts.rank, outcome.steps)
            outcome = replace(outcome, samples=samples_contributed(base, loader, steps))
        base.part()
        self._write_summary(outcome, subject)  # everything has left by now, so that its byte counts are final

    def _first_values(self, place: Place, subject: Subject) -> tuple[InitialState, int]:
        """Connect, and let the model here begin as everybody's. Answers what worker 0 has handed out, and for who joins
        again a checksum of what is not trained. Collective."""
        base, parts = self._base, self._parts
        parts.saved.give_parameters(place.shared)
        initial = parts.initial(place.shared)
        if not base.incarnation:
            base.connect()
            base.rendezvous.agree("model and key order", self._launch.model.checksum)
            agree_on_buffers(place.shared, parts.gather, self._launch.model.name)
            # Replayed stages differ, and begin alike everywhere.
            if parts.team.stage is None or subject.pace is None:
                share(initial, place.shared, self._launch, base)
        parts.saved.give_buffers(place.shared)  # worker 0 has handed out its own
        return initial, untrained(place.shared) if self._launch.restarts else 0

    def _save(self, model: torch.nn.Module, gather: Gather, elsewhere: dict[str, Any] | None) -> None:
        """Write what the job ends with. Collective."""
        path = None if self._parts.rank else self._launch.result / "model.pt"
        alone = self._goes_on or self._reached is not None
        if path is not None and alone and (own := [name for name, _ in model.named_buffers()]):
            print(
                f"warning: the buffers that are saved ({', '.join(own)}) are worker 0's own: nobody waits for the"
                " others, so they are not averaged. With cluster.worker_loss end and no target accuracy they are",
                flush=True,
            )
        save_state(model, gather, path if self._reached is None else None, elsewhere)
        if path is not None and self._reached is not None:
            write_state(self._reached, path)

    def _ready(self, checksum: int) -> int:
        """Meet all others; the first step. `checksum`: see `Rejoin.check`."""
        if self._launch.restarts and not self._parts.rank:
            self._base.rendezvous.publish(UNTRAINED, str(checksum))
        self._base.rendezvous.barrier("ready")
        if self._goes_on and not self._parts.rank:
            write_json(self._launch.ready, {})
        stop = self._parts.stop
        first = stop is not None and self._parts.rank == 0
        may_lose_workers(
            self._base,
            told=tells_of_loss(self._parts.exchanges, self._base.endpoint),
            returned=(lambda rank, _: stop.tell_again(rank)) if stop and first else None,
        )
        return self._parts.catch_up()

    def _straggler(self, slowness: Slowness) -> Straggler:
        plan = self._launch.plan
        sharded = isinstance(plan, Wrapper) and plan.runner == "fsdp"
        clock, waits_count = computing_clock(self._parts.device, sharded=sharded)
        recording = self._base.recording
        return Straggler(slowness, lambda: recording.step, clock, waits_count=waits_count)

    def _meanwhile(self, evaluator: Callable[..., Evaluator], model: torch.nn.Module) -> Meanwhile | None:
        stop = self._parts.stop
        if stop is None:
            return None

        def keep() -> None:
            self._reached = copied_state(model, self._alone())

        return Meanwhile(
            evaluate=None if self._parts.rank else self._evaluated_alone(evaluator),
            stop=stop,
            keep=keep,
            agree=self._agree,
            versions=lambda: held_versions(self._parts.exchanges.values()),
        )

    def _agree(self, found: Measured | None) -> Measured | None:
        """Worker 0's on every worker, unless one may be lost meanwhile. Collective."""
        if self._goes_on:
            return found
        own = (0.0,) * 4 if found is None else (1.0, float(found.steps), found.accuracy or 0.0, found.loss)
        there, steps, accuracy, loss = self._parts.gather.sum(own)
        return Measured(int(steps), accuracy, loss, common=False) if there else None

    def _at_the_end(self, evaluator: Callable[..., Evaluator], place: Place) -> Evaluator | None:
        """Workers share the test data, unless one may be lost meanwhile: then worker 0 evaluates, and nobody else."""
        parts = self._parts
        if self._goes_on:
            return None if parts.rank else self._evaluated_alone(evaluator)
        return evaluator(gather=parts.gather, team=place.team, rank=parts.team.rank, workers=parts.team.size)

    def _evaluated_alone(self, evaluator: Callable[..., Evaluator]) -> Evaluator:
        alone = self._alone()
        return evaluator(gather=alone, team=alone, rank=0, workers=1)

    def _alone(self) -> Gather:
        """Of this worker and nobody else."""
        return Gather(self._base.endpoint, 0, 1, self._launch.deadline_s)

    def _write_summary(self, outcome: TrainingEnd, subject: Subject) -> None:
        traffic = self._base.endpoint.counters.snapshot()
        summary = {
            "steps": outcome.steps,
            "samples": outcome.samples,
            "test_accuracy": outcome.test_accuracy,
            "test_loss": outcome.test_loss,
            "target_step": outcome.target_step,
            "train_ns": outcome.train_ns,
            "cpu_ns": outcome.cpu_ns,
            "sent_payload_bytes": {
                f"{peer}/{layer}": count for (peer, layer), count in sorted(traffic.sent_payload.items())
            },
            "received_payload_bytes": {
                f"{peer}/{layer}": count for (peer, layer), count in sorted(traffic.received_payload.items())
            },
        }
        if self._slowing is not None:
            summary |= {"computed_ns": self._slowing.computed_ns, "slowed_ns": self._slowing.waited_ns}
        if subject.pace is not None:
            summary |= rehearsal_summary(self._launch, subject.model, subject.pace)
        write_json(self._launch.summary(self._parts.rank), summary)


def seed_everything(seed: int, deterministic: bool) -> None:
    """Seed every generator that a model or data set may use, and say whether torch may use what does not repeat."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(deterministic)
