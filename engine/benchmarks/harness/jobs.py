"""Jobs as benchmarks run them: a real gang in a temporary directory, and what it measured of itself.

Step times, exposed communication and link bytes are read from the recorder's own spool, with the definitions of
`engine.telemetry.definitions`; there is no second clock.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine import launch as launches
from engine.benchmarks.harness.machine import CpuMeter
from engine.benchmarks.harness.pairs import rounds
from engine.benchmarks.harness.report import Report
from engine.gang.gang import Gang
from engine.launch import Launch
from engine.models.describe import describe_request
from engine.models.registry import ModelEntry
from engine.models.registry import model as catalogue_model
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain, to_plain
from engine.strategies import build_plan
from engine.telemetry.batch import Batch
from engine.telemetry.definitions import (
    WARM_UP_STEPS,
    iteration_times_ns,
    job_iteration_ns,
    median_iteration_ns,
)
from engine.telemetry.events import ALL_LAYERS, BIN_NS, LINK_BIN, STEP, Direction
from engine.telemetry.recorder import TRANSPORT
from engine.telemetry.spool import batches


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One run of a job; its first steps are left out of every figure."""

    step_ns: tuple[tuple[int, ...], ...]
    """Iteration times of every worker: start of forward to start of the next one."""
    iteration_ns: float
    """The job's: the median of the slowest worker, over whole periods where workers average."""
    exposed_ns: float
    """Exposed communication per step: the mean over steps and workers."""
    input_ns: float
    """Waiting for input per step: likewise."""
    cpu_s: float
    """CPU time of all workers per step, their transport and servers included; over all steps."""
    cpu_share: float
    """Of all cores of the machine, everything that ran meanwhile included (0 to 1)."""
    sent_bps: float
    """What an average worker's link carried outwards, in bits per second, headers included."""
    samples_per_s: float
    """Throughput of all workers."""
    parameter_bytes: int
    """Of the model as it was run: scaled in a rehearsal."""

    rehearsed: str | None
    """A rehearsal's label."""
    worst_behind_ns: int
    """The most that a rehearsal's workers were ever behind their profile: where it is much of a step, the machine
    was too slow for it."""

    def row(self) -> dict[str, Any]:
        """For a result's raw table."""
        return {
            "iteration_s": self.iteration_ns / 1e9,
            "exposed_s": self.exposed_ns / 1e9,
            "input_s": self.input_ns / 1e9,
            "cpu_s": round(self.cpu_s, 4),
            "cpu_share": round(self.cpu_share, 3),
            "sent_mbps": self.sent_bps / 1e6,
            "samples_per_s": self.samples_per_s,
            "rehearsed": self.rehearsed,
            "worst_behind_ms": self.worst_behind_ns / 1e6,
            "step_ms": [[round(time / 1e6, 3) for time in worker] for worker in self.step_ns],
        }


def bench_job(
    model: str,
    strategy: str,
    *,
    workers: int,
    batch: int,
    steps: int,
    options: Mapping[str, Any] | None = None,
    network: Mapping[str, Any] | None = None,
    rehearsal: Mapping[str, Any] | None = None,
    model_options: Mapping[str, Any] | None = None,
    threads: int = 1,
) -> JobSpec:
    """A job on synthetic data in the model's own shape, never evaluated. `batch` is per worker; `rehearsal`
    makes it a rehearsal."""
    plain: dict[str, Any] = {
        "name": f"{model} {strategy}",
        "model": {"name": model, "options": dict(model_options or {})},
        "data": _synthetic(catalogue_model(model), batch * workers),
        "strategy": {"name": strategy, "options": dict(options or {})},
        "cluster": {"workers": workers, "device": "cpu", "threads": threads},
        "network": dict(network or {}),
        "training": {"steps": steps, "global_batch": batch * workers},
        "optimizer": {"name": "sgd", "learning_rate": 1e-4, "options": {"momentum": 0.9}},
        "evaluation": {"every_epochs": None, "at_end": False},
    }
    if rehearsal is not None:
        plain |= {"fidelity": "rehearse", "rehearsal": dict(rehearsal)}
    return from_plain(JobSpec, plain)


def named(label: str) -> tuple[str, dict[str, Any]]:
    """`p3:slice_size=auto,shares=equal` is p3 with two options."""
    name, _, said = label.partition(":")
    given = [option.partition("=") for option in said.split(",") if option]
    return name, {key: int(value) if value.isdigit() else value for key, _, value in given}


def rehearsal_arguments(parser: argparse.ArgumentParser) -> None:
    """What the benchmarks on a rehearsed cluster may be told of it."""
    parser.add_argument("--batch", type=int, default=32, help="samples of each worker")
    parser.add_argument("--device", default="p4000")
    parser.add_argument("--efficiency", type=float, default=0.6)
    parser.add_argument("--scale", type=float, default=15)


def rehearsal_of(options: argparse.Namespace) -> dict[str, Any]:
    """`bench_job`'s `rehearsal` of those arguments."""
    return {"device": options.device, "efficiency": options.efficiency, "scale": options.scale}


def _synthetic(entry: ModelEntry, samples: int) -> dict[str, Any]:
    """Data that take the model's own shape; for a language model text, of which there is always enough."""
    if entry.target_shape and entry.input_shape == entry.target_shape:
        return {"name": "text", "options": {"vocabulary": entry.classes, "steps": entry.input_shape[0]}}
    name = "synthetic-tokens" if entry.target_shape else "synthetic"
    return {"name": name, "options": {"samples": samples}}


def prepare(spec: JobSpec, directory: Path, *, record: bool = True) -> Launch:
    """The launch of a job, written down and ready for a gang."""
    request = {"model": spec.model, "data": spec.data, "precision": spec.training.precision}
    model = describe_request({name: to_plain(value) for name, value in request.items()})
    launch = launches.prepare(spec, build_plan(spec, model), model, directory, record=record)
    launch.write()
    return launch


def measure(
    spec: JobSpec,
    *,
    warm_up: int = WARM_UP_STEPS,
    timeout_s: float = 900.0,
    record: bool = True,
    directory: Path | None = None,
    beside: Callable[[Launch], AbstractContextManager[Path]] | None = None,
) -> Measured:
    """Run a job to its end. Raises RuntimeError, with the party's last words, where it does not succeed.
    `record`: see `Launch.record`. `directory` keeps the attempt's files; without it they are removed. `beside`:
    entered while the gang runs; answers the spool that holds the batches afterwards."""
    with tempfile.TemporaryDirectory(prefix="trainyard-benchmark-") as temporary:
        launch = prepare(spec, directory or Path(temporary), record=record)
        gang = Gang(launch)
        with CpuMeter() as cpu, beside(launch) if beside else nullcontext(launch.spool) as spool:
            try:
                gang.start()
                end = gang.wait(timeout_s)
            finally:
                gang.stop()
        if end is None or end.status != "succeeded":
            why = f"not done after {timeout_s:g} s" if end is None else end.reason
            raise RuntimeError(f"{spec.name}: {why}\n{_last_words(launch)}")
        return read(launch, cpu, warm_up, spool)


def interleaved(
    jobs: Mapping[str, JobSpec],
    count: int,
    report: Report,
    labels: Mapping[str, Any],
    *,
    name_as: str = "strategy",
    warm_up: int = WARM_UP_STEPS,
) -> dict[str, list[Measured]]:
    """`count` rounds of all jobs, in turned order every other round. Each run, when it has ended, is printed and goes
    into the report's raw table: `labels`, its name in the column `name_as`, its round, and `Measured.row`."""
    found: dict[str, list[Measured]] = {name: [] for name in jobs}
    for number, name in rounds(list(jobs), count):
        one = measure(jobs[name], warm_up=warm_up)
        found[name].append(one)
        report.raw([{**labels, name_as: name, "round": number, **one.row()}])
        print(
            f"  round {number + 1}/{count} {name}: {one.iteration_ns / 1e9:.3f} s a step, "
            f"exposed {one.exposed_ns / 1e9:.3f} s, CPU {one.cpu_share:.0%}",
            flush=True,
        )
    return found


def read(launch: Launch, cpu: CpuMeter, warm_up: int, spool: Path) -> Measured:
    """What a finished job's spool and summaries say. Raises ValueError for a job too short to say anything."""
    workers = [party for party in launch.parties if party.rank is not None]
    steps, bins = _spooled(spool, launch.job.network.hosts is not None)
    warm = {p.index: steps[p.index][steps[p.index]["step"] >= warm_up] for p in workers}
    columns = [tuple(warm[p.index][name] for name in ("step", "start", "end")) for p in workers]
    times = [iteration_times_ns(*own) for own in columns]
    period = launch.consistency.exchange_period
    iteration = job_iteration_ns(
        [median_iteration_ns(*own, period=period, warm_up=warm_up) for own in columns]
    )
    if iteration is None:
        raise ValueError(f"{launch.job.name}: no iteration after {warm_up} steps of warm-up; run more steps")
    every = np.concatenate([warm[p.index] for p in workers])
    begin_ns, end_ns = int(every["start"].min()), int(every["end"].max())
    inside = (bins["bin"] * BIN_NS >= begin_ns) & ((bins["bin"] + 1) * BIN_NS <= end_ns)
    summaries = [json.loads(launch.summary(rank).read_text()) for rank in range(len(workers))]
    return Measured(
        step_ns=tuple(tuple(int(time) for time in worker) for worker in times),
        iteration_ns=iteration,
        exposed_ns=float(np.mean(every["exposed"])),
        input_ns=float(np.mean(every["input"])),
        rehearsed=launch.job.rehearsed,
        worst_behind_ns=max(s.get("worst_behind_ns", 0) for s in summaries),
        cpu_s=sum(s["cpu_ns"] for s in summaries) / 1e9 / summaries[0]["steps"],
        cpu_share=cpu.share(launch.epoch_unix_ns + begin_ns, launch.epoch_unix_ns + end_ns),
        sent_bps=float(bins["bytes"][inside].sum()) * 8e9 / (end_ns - begin_ns) / len(workers),
        samples_per_s=launch.job.training.global_batch * 1e9 / iteration,
        parameter_bytes=launch.model.parameter_bytes,
    )


def _spooled(spool: Path, lab: bool) -> tuple[dict[int, np.ndarray], np.ndarray]:
    """STEP rows by party; and the bins of all bytes that the transport sent."""
    steps: dict[int, list[np.ndarray]] = {}
    bins = [np.empty(0, LINK_BIN)]
    for batch in batches(spool):
        steps.setdefault(batch.party, [np.empty(0, STEP)]).append(batch.table("steps"))
        bins.append(_sent(batch, lab))
    return {party: np.concatenate(tables) for party, tables in steps.items()}, np.concatenate(bins)


def _sent(batch: Batch, lab: bool) -> np.ndarray:
    """What the transport sent, all layers together; on a lab what left by the interface of a host, which its first
    party counts for all."""
    links = [index for index, link in enumerate(batch.links) if (link.interface != TRANSPORT) == lab]
    bins = batch.table("bins")
    chosen = np.isin(bins["link"], links) & (bins["direction"] == Direction.TX)
    return bins[chosen & (bins["layer"] == ALL_LAYERS)]


def _last_words(launch: Launch) -> str:
    """The ends of the processes' logs."""
    logs = sorted((launch.directory / "logs").glob("*.log"))
    return "\n".join(f"--- {path.stem}\n{path.read_text(encoding='utf-8')[-2000:]}" for path in logs)
