"""The cluster of P3's paper (004, section 5.1), rehearsed: its models, machines and strategies.

The paper trains on four machines with a P4000 each and limits their network interfaces. Here every machine is a
host of the lab with links shaped in both directions, and the P4000 is replayed: each layer waits as long as its
FLOPs take, while gradients and every byte on the wire are real, sizes and rates divided by one factor.

The paper prints neither batch sizes nor times. A batch of 32 at half of the P4000's peak puts ResNet-50's compute
time where its port is busy all the time at 3.9 Gbit/s, which is where the paper's P3 leaves the line (4 Gbit/s).
Recurrent layers reach far less of a peak, as their products are small and wait for one another: a tenth is assumed.

One machine handles the messages of all hosts, which takes more cores than it has. So time runs `slow` times slower:
a batch `slow` times as large at 1/slow of the rate. Compute and transfer then take `slow` times as long each, samples
per second stay what they were, and all figures are given for the usual batch and the true rate.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from engine.benchmarks.harness.jobs import Measured, bench_job, interleaved
from engine.benchmarks.harness.machine import BUSY
from engine.benchmarks.harness.pairs import FEWEST_ROUNDS
from engine.benchmarks.harness.report import Report, arguments
from engine.models.describe import describe_request
from engine.plan.description import ModelDescription
from engine.plan.job import JobSpec
from engine.plan.serde import to_plain
from engine.profile import profile_of

RESULTS = Path(__file__).parent / "results"
BASELINE, SLICING, P3 = "parameter-server", "parameter-slicing", "p3"
SLICE = 50_000
"""Elements (section 5.6)."""
WARM_UP = 2
"""Steps that every figure leaves out."""
MESSAGE_S = 2e-4
"""Of all cores of a machine of two, for one message, sent and handled: what a run with tiny slices takes."""
START_S = 5.0
"""Of one run: processes, hosts and connections, before its first step and after its last."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One model as the paper trains it."""

    model: str
    """Its name in the catalogue."""
    title: str
    """As the paper calls it."""
    batch: int = 32
    """Samples of one worker's step, as the paper's machines would have it."""
    efficiency: float = 0.5
    """Assumed share of the P4000's peak."""
    scale: float
    """Sizes and rates are divided by it."""
    slow: float
    """How many times slower time runs on four hosts."""
    steps: int = 6
    """Of one run, warm-up included."""


WORKLOADS = {
    workload.model: workload
    for workload in (
        Workload(model="resnet50", title="ResNet-50", scale=16, slow=4),
        Workload(model="inception-v3", title="InceptionV3", scale=16, slow=4),
        Workload(model="vgg19", title="VGG-19", scale=20, slow=3),
        Workload(model="sockeye-shape", title="Sockeye", batch=64, efficiency=0.1, scale=20, slow=3),
    )
}


def job(
    workload: Workload,
    strategy: str,
    gbit: float,
    *,
    hosts: int = 4,
    steps: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> JobSpec:
    """One worker and one server shard on each of `hosts` hosts, whose links carry `gbit` Gbit/s each way. Slices have
    the paper's size unless `options` has another."""
    slow = slowness(workload, hosts)
    usual = {"slice_size": SLICE} if strategy in (SLICING, P3) else {}
    return bench_job(
        workload.model,
        strategy,
        workers=hosts,
        batch=round(workload.batch * slow),
        steps=steps or workload.steps,
        options={**usual, **(options or {})},
        network={"hosts": hosts, "rate": f"{gbit / slow:g}Gbit"},
        rehearsal={"device": "p4000", "efficiency": workload.efficiency, "scale": workload.scale},
    )


def slowness(workload: Workload, hosts: int) -> float:
    """How many times slower time runs: a slice needs 2 (n - 1) messages on n hosts, so eight need more of it."""
    return workload.slow * max(1.0, (hosts - 1) / 3)


@cache
def description(workload: Workload) -> ModelDescription:
    """The model at its true size."""
    spec = job(workload, P3, 1)
    return describe_request({"model": to_plain(spec.model), "data": to_plain(spec.data)})


def compute_s(workload: Workload) -> float:
    """Seconds of one step's compute at the usual batch: no step is shorter."""
    profile = profile_of(job(workload, P3, 1), description(workload))
    return workload.batch * (profile.forward_s + profile.backward_s)


def port_s(workload: Workload, gbit: float, hosts: int = 4) -> float:
    """Seconds that one step's payload takes through a host's port, each way: no step of a server strategy is
    shorter. A worker's gradients leave but for what its own shard holds, (n - 1) / n |W|; as much leaves in the
    answers of the shard to the other workers, (n - 1) |W| / n."""
    return 2 * (hosts - 1) / hosts * description(workload).parameter_bytes * 8 / (gbit * 1e9)


def bound_samples_per_s(workload: Workload, gbit: float, hosts: int = 4) -> float:
    """The most that compute and ports allow."""
    return hosts * workload.batch / max(compute_s(workload), port_s(workload, gbit, hosts))


def panels(doc: str | None, models: Iterable[str]) -> argparse.ArgumentParser:
    """The arguments of a figure with one panel for each of `models`."""
    parser = arguments(doc)
    parser.set_defaults(out=RESULTS)
    parser.add_argument("--model", choices=list(models), help="one panel; all where left out")
    parser.add_argument(
        "--rounds", type=int, help=f"runs of all that is compared; {FEWEST_ROUNDS} make a 95 %% interval"
    )
    return parser


def slices(workload: Workload, size: int) -> int:
    """Slices of at most `size` elements that the model is cut into, a layer's parameters together."""
    return sum(-(-layer.parameter_count // size) for layer in description(workload).layers)


def expected_s(
    workload: Workload, gbit: float, hosts: int = 4, steps: int | None = None, slice_size: int = SLICE
) -> float:
    """About how long one run takes here: half as long again as the bound where the network binds."""
    network = slowness(workload, hosts) * 1.5 * port_s(workload, gbit, hosts)
    messages = 2 * (hosts - 1) * slices(workload, slice_size) * MESSAGE_S
    step = max(slowness(workload, hosts) * compute_s(workload), network, messages)
    return START_S + (steps or workload.steps) * 1.1 * step


def label(workload: Workload, hosts: int = 4) -> str:
    """What stands beside every figure."""
    return f"{job(workload, P3, 1, hosts=hosts).rehearsed}, time {slowness(workload, hosts):g} times slower"


def setting(workload: Workload, hosts: int = 4) -> str:
    """What a result says of its workload."""
    found = description(workload)
    return (
        f"{workload.title}: {found.parameter_count / 1e6:.1f} M parameters, batch {workload.batch} a worker, "
        f"compute {compute_s(workload):.3f} s a step; {label(workload, hosts)} (a batch of "
        f"{workload.batch * slowness(workload, hosts):g} at 1/{slowness(workload, hosts):g} of the rate). "
        f"The first {WARM_UP} steps of every run are left out. "
        f"{BUSY}"
    )


def race(
    report: Report, jobs: Mapping[str, JobSpec], rounds: int, **labels: Any
) -> dict[str, list[Measured]]:
    """Run all jobs in interleaved rounds; every run goes into the report's raw table, with `labels`. Its times are
    those of the run, `slow` times those of the cluster."""
    return interleaved(jobs, rounds, report, labels, name_as="job", warm_up=WARM_UP)


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Median and range of the rounds; of one round its value."""
    middle, least, most = (f"{v:.{digits}f}" for v in (statistics.median(values), min(values), max(values)))
    return f"{middle} ({least} to {most})" if len(values) > 1 else middle
