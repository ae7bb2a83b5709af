"""Ring allreduce of one large tensor: ours against torch.distributed's Gloo, on the same links, in turns.

    python -m engine.benchmarks.ring_against_gloo

Four hosts of a lab. Every process has both: the exchange of the strategy `ring-allreduce` with the plan that a job
would get, and a Gloo process group on the same interface. An allreduce lasts from the first start to the last
end of all ranks; a barrier is before each. The sums are checked.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn import Parameter

from engine.benchmarks.harness.hosts import Host, Hosts, require_lab, tasks
from engine.benchmarks.harness.jobs import bench_job
from engine.benchmarks.harness.machine import BUSY, CpuMeter, cpu_use
from engine.benchmarks.harness.pairs import METHOD, ratio, rounds
from engine.benchmarks.harness.report import Report, arguments
from engine.coordination.dispatch import Dispatch
from engine.exchange.base import Surroundings
from engine.exchange.ring_allreduce import RingAllreduce
from engine.launch import Launch, prepare
from engine.plan.description import LayerDescription, ModelDescription, ParameterDescription
from engine.protocol.messages import Lane
from engine.runtime.party import load_choices
from engine.state.host_memory import HostMemory
from engine.state.recording import Recording
from engine.state.versions import Versions
from engine.strategies import build_plan
from engine.telemetry.collectives import Collectives
from engine.telemetry.step_times import StepTimes
from engine.transport import Endpoint

HOSTS = 4
WAIT_S = 300.0
COLUMNS = ("Mbit/s", "ours, s", "Gloo, s", "port, s", "Gloo's time over ours", "CPU, ours", "CPU, Gloo")


TOKEN = b"ring against Gloo"
"""Nobody else is on the benchmark's hosts."""


def launch_of(count: int, directory: Path) -> Launch:
    """A job whose model is one parameter of `count` elements, with the plan that `ring-allreduce` makes of it."""
    parameter = ParameterDescription(name="tensor.weight", shape=(count,), dtype="float32", trainable=True)
    layer = LayerDescription(
        name="tensor", kind="Linear", index=0, parameters=(parameter,), forward_flops=0, output_bytes=0
    )
    model = ModelDescription(name="tensor", layers=(layer,))
    job = bench_job("mlp", "ring-allreduce", workers=HOSTS, batch=1, steps=1)
    return prepare(job, build_plan(job, model), model, directory)


class Ring:
    """Our exchange as a worker uses it."""

    def __init__(self, place: Host, pipe: Connection, launch: Launch, parameter: Parameter) -> None:
        names = [f"worker {rank}" for rank in range(place.count)]
        self._endpoint = Endpoint(index=place.index, names=names, hosts=names, deadline_s=WAIT_S, token=TOKEN)
        self._choices = load_choices(launch)
        self._versions = Versions(len(self._choices), WAIT_S)
        self._step = 0
        self._endpoint.on_failure(self._versions.fail)
        recorder = StepTimes(place.index, names[place.index], time.monotonic_ns, None)
        lane = Dispatch(self._endpoint, Lane.WORKER, 2**30)
        lane.expect(choice.unit for choice in self._choices.values())
        self._exchange = RingAllreduce(
            Surroundings(
                rank=place.index,
                workers=place.count,
                choices=self._choices,
                memory=HostMemory({"tensor.weight": parameter}),
                endpoint=self._endpoint,
                versions=self._versions,
                recording=Recording(recorder, time.monotonic_ns),
                collectives=Collectives(recorder, within_host=True),
                shard_party=lambda shard: shard,
                party_name=lambda index: names[index],
                device="cpu",
                rendezvous="",
                deadline_s=WAIT_S,
            )
        )
        lane.add(self._exchange.kinds, self._exchange, self._choices)
        pipe.send(self._endpoint.listen(bind=place.address))
        self._endpoint.connect(pipe.recv())

    def run(self) -> None:
        """One allreduce of the parameter's gradient, in place."""
        units = [choice.unit for choice in self._choices.values()]
        for unit in units:
            self._exchange.start(unit, self._step)
        self._step += 1
        self._versions.wait(units, self._step, self._exchange.missing)

    def close(self) -> None:
        self._endpoint.close()


def _main(place: Host, pipe: Connection, argument: tuple[int, str]) -> None:
    count, directory = argument
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = place.interface
    parameter = Parameter(torch.zeros(count))
    parameter.grad = torch.zeros(count)
    ring = Ring(place, pipe, launch_of(count, Path(directory)), parameter)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{directory}/gloo",
        rank=place.index,
        world_size=place.count,
        timeout=timedelta(seconds=WAIT_S),
    )
    pipe.send("ready")
    for who in tasks(pipe):
        parameter.grad.fill_(place.index + 1)
        dist.barrier()
        start_ns = time.monotonic_ns()
        ring.run() if who == "ours" else dist.all_reduce(parameter.grad)
        end_ns = time.monotonic_ns()
        expected = place.count * (place.count + 1) / 2
        correct = bool((parameter.grad == expected).all())
        pipe.send((start_ns, end_ns, correct))
    ring.close()
    dist.destroy_process_group()


Found = dict[str, list[float]]
"""By who ran it, round by round."""


def compare(options: argparse.Namespace, report: Report, mbps: float, count: int) -> tuple[Found, Found]:
    """Seconds of every allreduce of both, and the CPU use of each."""
    seconds: Found = {"ours": [], "Gloo": []}
    cpu_share: Found = {"ours": [], "Gloo": []}
    with (
        tempfile.TemporaryDirectory() as directory,
        Hosts(
            _main, HOSTS, lab=not options.loopback, rate_bps=round(mbps * 1e6), argument=(count, directory)
        ) as hosts,
    ):
        addresses = dict(enumerate(hosts.answers()))
        hosts.ask([addresses] * HOSTS)
        for who in seconds:  # buffers and connections settle
            hosts.ask([who] * HOSTS)
        for number, who in rounds(list(seconds), options.rounds):
            with CpuMeter() as cpu:
                answers = hosts.ask([who] * HOSTS)
            if not all(correct for _, _, correct in answers):
                raise RuntimeError(f"{who}: the sum is wrong")
            took_s = (max(end for _, end, _ in answers) - min(start for start, _, _ in answers)) / 1e9
            seconds[who].append(took_s)
            cpu_share[who].append(cpu.share())
            report.raw(
                [{"mbps": mbps, "bytes": 4 * count, "round": number, "who": who, "seconds": took_s,
                  "cpu_share": cpu.share()}]
            )  # fmt: skip
            print(
                f"  {mbps:g} Mbit/s, round {number + 1} {who}: {took_s:.3f} s, CPU {cpu.share():.0%}",
                flush=True,
            )
    return seconds, cpu_share


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rates", type=float, nargs="+", default=[1000, 300], help="Mbit/s")
    parser.add_argument("--megabytes", type=float, default=256)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--loopback", action="store_true", help="no lab: loopback, not limited")
    options = parser.parse_args()
    if options.quick:
        options.rates, options.megabytes, options.rounds = [1000], 32, 3
    if not options.loopback:
        require_lab()
    with Report(
        "ring-against-gloo",
        "Ring allreduce of one tensor against Gloo",
        "How does our ring compare with Gloo's own allreduce on the same links?",
        options,
    ) as report:
        bits = options.megabytes * 8 * 2 * (HOSTS - 1) / HOSTS
        report.plan(
            [
                f"{options.megabytes:g} MB at {rate:g} Mbit/s, {options.rounds} pairs"
                for rate in options.rates
            ],
            minutes=sum(20 + 1.3 * 2 * (options.rounds + 1) * bits / rate for rate in options.rates) / 60,
        )
        report.method(
            f"{HOSTS} processes with one thread each on {'loopback' if options.loopback else 'hosts of a lab'}. "
            f"{METHOD} More than 1: ours is faster. The port's bound is 2 (n-1)/n of the bytes over the rate. "
            f"{BUSY}"
        )
        rows = []
        for rate in options.rates:
            seconds, cpu_share = compare(options, report, rate, round(options.megabytes * 1e6 / 4))
            ours, gloo = seconds["ours"], seconds["Gloo"]
            speed = ratio(gloo, ours)
            cpu = [cpu_use(cpu_share[who]) for who in ("ours", "Gloo")]
            times = [statistics.median(ours), statistics.median(gloo), bits / rate]
            rows.append([f"{rate:g}", *times, f"{speed}{' *' if speed.significant else ''}", *cpu])
            report.table(f"{options.megabytes:g} MB float32", COLUMNS, rows)


if __name__ == "__main__":
    main()
