"""How much memory does a worker need, for what? Measured by part, beside what the plan declares.

    python -m engine.benchmarks.memory

Real workers, each in its process on loopback. After every step each looks which tensors it has and whose they are (in
the thread that trains, because autograd works on gradients while it holds no lock); a thread looks every half second
what the kernel counts for the process. Shown is the highest of each part on worker 0, so parts may come from different
moments; and on a worker of every other part of the model, where it is cut. Rehearsed models have no activations.
"""

from __future__ import annotations

import gc
import os
import re
import socket
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from engine.benchmarks.harness.hosts import Host, Hosts, tasks
from engine.benchmarks.harness.jobs import bench_job, prepare
from engine.benchmarks.harness.report import Report, arguments
from engine.codec.difference import Difference
from engine.codec.memory import Memory
from engine.codec.powersgd import PowerSgd
from engine.launch import Launch
from engine.plan.cluster import Party
from engine.plan.job import JobSpec
from engine.plan.memory import PARTS, held
from engine.runtime.worker import Worker

WORKERS = 4
STRATEGIES = ["parameter-server", "p3", "ring-allreduce-overlap", "ddp", "hybrid", "model-parallel"]
EVERY_S = 0.5
REST = ("scratch buffers", "socket buffers, limit", "libraries", "Pss", "Rss")
COLUMNS = ("model", "strategy", "worker", "rehearsed", *PARTS, *REST)
MIB = 2**20


def tensor_bytes() -> dict[str, int]:
    """Bytes of this process's tensors by part, every storage once."""
    modules, optimizers, tensors = _alive(nn.Module), _alive(torch.optim.Optimizer), _alive(Tensor)
    # Their own only, and without a word of theirs: the back of a cut model refuses to be asked for all of them.
    parameters = [p for module in modules for p in module._parameters.values() if p is not None]
    updated = [p for one in optimizers for group in one.param_groups for p in group["params"]]
    kept = [held for kind in (Memory, Difference, PowerSgd) for one in _alive(kind) for held in one.tensors]
    state = [v for one in optimizers for values in list(one.state.values()) for v in values.values()]
    seen: dict[int, int] = {}
    return {
        "parameters": _storages(parameters, seen),
        "gradients": _storages((p.grad for p in parameters), seen),
        "optimizer state": _storages(state, seen),
        "server copies": _storages(updated, seen),
        "residuals": _storages(kept, seen),
        "sums and other tensors": _storages(tensors, seen),
    }


def _alive(kind: type) -> list[Any]:
    """Every object of a class. No other thread runs meanwhile: the list also holds tuples that one of them has not
    finished, which Python forbids to be seen."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(10)
    try:
        return [one for one in gc.get_objects() if issubclass(type(one), kind)]
    finally:
        sys.setswitchinterval(interval)


def _storages(tensors: Any, seen: dict[int, int]) -> int:
    """Bytes by which these tensors reach into storages that were not counted yet, or further than was counted. Their
    storages themselves are not touched: Python objects for them are not safe while other threads free tensors."""
    total = 0
    for tensor in tensors:
        if not isinstance(tensor, Tensor) or tensor.device.type != "cpu" or tensor.layout != torch.strided:
            continue
        if not tensor.numel():
            continue
        size, offset = tensor.element_size(), int(tensor.storage_offset())
        base = tensor.data_ptr() - offset * size
        last = sum(
            (length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride(), strict=True)
        )
        reach = (offset + last + 1) * size
        total += max(0, reach - seen.get(base, 0))
        seen[base] = max(reach, seen.get(base, 0))
    return total


def process_bytes() -> dict[str, int]:
    """What the kernel counts: the process's memory, its scratch buffers (anonymous maps that may be shared, as
    `ScratchPool` makes them), and the limits of its TCP sockets' buffers."""
    rollup = Path("/proc/self/smaps_rollup").read_text(encoding="ascii")
    sizes = dict(re.findall(r"^(\w+):\s+(\d+) kB", rollup, re.MULTILINE))
    maps = Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace")
    scratch = re.findall(r"/dev/zero \(deleted\)\n(?:\w+:.*\n)*?Rss:\s+(\d+)", maps)
    return {
        "Rss": 1024 * int(sizes["Rss"]),
        "Pss": 1024 * int(sizes["Pss"]),
        "scratch buffers": 1024 * sum(map(int, scratch)),
        "socket buffers, limit": sum(_socket_limits()),
    }


def _socket_limits() -> Iterator[int]:
    """Send and receive buffer of every TCP socket of this process."""
    for entry in Path("/proc/self/fd").iterdir():
        try:
            if not stat.S_ISSOCK(entry.stat().st_mode):
                continue
            with socket.socket(fileno=os.dup(int(entry.name))) as one:
                if one.family in (socket.AF_INET, socket.AF_INET6) and one.type == socket.SOCK_STREAM:
                    yield sum(
                        one.getsockopt(socket.SOL_SOCKET, o) for o in (socket.SO_SNDBUF, socket.SO_RCVBUF)
                    )
        except OSError:
            continue  # closed meanwhile


class _Watched(Worker):
    """A worker that looks at its tensors after every step."""

    def __init__(self, launch: Launch, party: Party, highest: dict[str, int]) -> None:
        super().__init__(launch, party)
        self._highest = highest

    def after_step(self, step: int) -> None:
        super().after_step(step)
        _raise(self._highest, tensor_bytes())


def _raise(highest: dict[str, int], sizes: Mapping[str, int]) -> None:
    for part, size in sizes.items():
        highest[part] = max(size, highest.get(part, 0))


def _main(place: Host, pipe: Connection, directory: str) -> None:
    """One real worker, watched from within its process."""
    # The worker freezes what it has before it trains, and what is frozen is not listed. (To unfreeze and freeze from
    # another thread, perhaps while the collector is under way, crashes the interpreter.)
    gc.freeze = lambda: None
    torch.set_num_threads(1)
    launch = Launch.read(Path(directory))
    highest: dict[str, int] = {"libraries": process_bytes()["Pss"]}
    worker = _Watched(launch, launch.parties[place.index], highest)
    done = threading.Event()

    def watch() -> None:
        while not done.wait(EVERY_S):
            _raise(highest, process_bytes())

    watcher = threading.Thread(target=watch, daemon=True)
    for _ in tasks(pipe):
        watcher.start()
        worker.run()
        done.set()
        watcher.join()
        pipe.send(highest)


def run(spec: JobSpec) -> list[tuple[dict[str, int], dict[str, int]]]:
    """(highest of each part, what is declared), in bytes, of every worker."""
    workers = spec.cluster.workers
    with tempfile.TemporaryDirectory(prefix="trainyard-benchmark-") as directory:
        launch = prepare(spec, Path(directory))
        with Hosts(_main, workers, lab=False, argument=directory) as hosts:
            measured: list[dict[str, int]] = hosts.ask(["train"] * workers)
        return [
            (dict(one), held(launch.plan, launch.model, party, spec))
            for one, party in zip(measured, launch.parties, strict=True)
        ]


def one_of_each_part(
    spec: JobSpec, found: Sequence[tuple[dict[str, int], dict[str, int]]]
) -> list[dict[str, Any]]:
    """For the raw table: what `run` found of the first worker of every part of the model."""
    first: dict[int, dict[str, Any]] = {}
    for rank, (measured, declared) in enumerate(found):
        named = {"model": spec.model.name, "strategy": spec.strategy.name, "worker": rank}
        whole = {**named, "rehearsed": spec.rehearsed, "measured": measured, "declared": declared}
        first.setdefault(declared["parameters"], whole)
    return list(first.values())


def row(worker: Mapping[str, Any]) -> list[Any]:
    """The table's row of what `one_of_each_part` lists."""
    measured, declared = worker["measured"], worker["declared"]
    return [
        worker["model"],
        worker["strategy"],
        worker["worker"],
        worker["rehearsed"] or "no",
        *(f"{measured.get(part, 0) / MIB:.1f} ({declared[part] / MIB:.1f})" for part in PARTS),
        *(f"{measured.get(part, 0) / MIB:.1f}" for part in REST),
    ]


def main() -> None:
    parser = arguments(__doc__)
    add = parser.add_argument
    add("--models", nargs="+", default=["vgg-small", "vgg19"])
    add("--strategies", nargs="+", default=STRATEGIES)
    add("--scale", type=float, default=5, help="vgg19 is rehearsed, divided by this")
    add("--steps", type=int, default=8)
    options = parser.parse_args()
    if options.quick:
        options.models, options.strategies = ["vgg-small"], ["p3"]
    with Report(
        "memory", "Memory of a worker", "How much memory does a worker need, for what?", options
    ) as report:
        report.plan(
            [f"{model}: {options.strategies}, {WORKERS} workers" for model in options.models],
            minutes=len(options.models) * len(options.strategies) * 0.5,
        )
        report.method(
            f"{WORKERS} workers, SGD with momentum. vgg-small trains (batch 4 each); others are rehearsed, tensors "
            f"divided by {options.scale:g}. MiB, worker 0, and of a cut model one worker of each part: the highest, "
            f"after a step (tensors) or every {EVERY_S:g} s (what the kernel counts); in brackets what the plan "
            "declares. Pss is the process's share of memory, `libraries` its Pss before the model was built. Queues "
            "have no memory of their own: what waits to leave are views of gradients and server copies, what waits "
            "to be handled lies in scratch buffers. Plans declare neither scratch nor socket buffers."
        )
        rows = []
        for model in options.models:
            trains = model == "vgg-small"
            for strategy in options.strategies:
                spec = bench_job(
                    model,
                    strategy,
                    workers=WORKERS,
                    batch=4,
                    steps=options.steps * (5 if trains else 1),
                    rehearsal=None if trains else {"device": "p100", "scale": options.scale},
                )
                workers = one_of_each_part(spec, run(spec))
                report.raw(workers)
                rows += [row(worker) for worker in workers]
                report.table("MiB of a worker: measured (declared)", COLUMNS, rows)


if __name__ == "__main__":
    main()
