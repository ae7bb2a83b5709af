"""The cluster as a strategy sees it, and the parties (processes) that a plan makes of it."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import UserError
from engine.plan.job import JobSpec
from engine.plan.plan import LayerPlan, MessageCost, Plan, Workload, Wrapper


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The devices given to a job."""

    workers: int
    """Number of workers: one process and one device each."""
    rate_bps: int | None = None
    """What each host's port is limited to, in bits per second and per direction; None: not limited."""
    host_rates_bps: tuple[int, ...] = ()
    """Of each host's port, where they are given host by host."""
    declared_bps: int | None = None
    """What a network without a limit is said to do; None where it is not known."""
    shaped: bool = False
    """Whether the links themselves keep that rate, so that whatever sends over them does; else our transport does."""
    message: MessageCost | None = None
    """What a message costs here. `build_plan` has it measured where an option is left to us (`auto`), only there."""
    workload: Workload | None = None
    """What the job computes in a step; None where no job is known."""

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise UserError(
                "cluster.workers", self.workers, "a job needs at least one worker", "Use 1 or more"
            )


def cluster_of(job: JobSpec) -> Cluster:
    """The cluster that a job asks for."""
    return Cluster(
        workers=job.cluster.workers,
        rate_bps=job.network.rate_bps,
        host_rates_bps=tuple(rate for rate in job.network.host_rates_bps if rate is not None),
        declared_bps=job.network.declared_rate_bps,
        shaped=job.network.hosts is not None,
        workload=workload_of(job),
    )


def workload_of(job: JobSpec) -> Workload:
    """What a job computes in a step."""
    training = job.training
    return Workload(
        samples=training.global_batch,
        autocast=training.precision == "bf16",
        micro_batches=training.micro_batches,
    )


@dataclass(frozen=True, kw_only=True)
class Party:
    """One process of a job."""

    index: int
    """Its number on the wire and in telemetry: the workers first, then dedicated servers, then dedicated devices."""
    name: str
    """`worker 0`, `server 1`, `device 0`: what people read."""
    rank: int | None
    """The worker it is, or None."""
    shard: int | None
    """The server shard that it hosts, or None."""
    host: str
    """Parties on one host share its port; bytes between them never cross the network."""
    device: int | None = None
    """The plan's device that it is, or that computes in its process; or None."""


def parties(plan: Plan | Wrapper, workers: int, hosts: int | None = None) -> tuple[Party, ...]:
    """Every process of a job: N workers (with shards and devices beside them), then dedicated servers and devices, on
    `hosts` (None: each has its own)."""
    servers = plan.servers if isinstance(plan, Plan) else None
    devices = plan.devices if isinstance(plan, Plan) else ()
    beside = servers.count if servers and servers.where == "beside" else 0

    def host(party: int) -> str:
        return f"host{party if hosts is None else host_of(plan, workers, hosts, party)}"

    found = [
        Party(
            index=i,
            name=f"worker {i}",
            rank=i,
            shard=i if i < beside else None,
            device=next((k for k, device in enumerate(devices) if device.beside == i), None),
            host=host(i),
        )
        for i in range(workers)
    ]
    if servers and servers.where == "dedicated":
        found += [
            Party(index=workers + j, name=f"server {j}", rank=None, shard=j, host=host(workers + j))
            for j in range(servers.count)
        ]
    for k, device in enumerate(devices):
        if device.beside is None:
            index = len(found)
            found.append(
                Party(index=index, name=f"device {k}", rank=None, shard=None, device=k, host=host(index))
            )
    return tuple(found)


def host_of(plan: Plan | Wrapper, workers: int, hosts: int, party: int) -> int:
    """Which of `hosts` a party lives on: they are dealt out in turn, but the workers of a pipeline in runs, so that
    activations travel inside a machine where that is possible (papers 001)."""
    if isinstance(plan, Plan) and plan.pipeline is not None:
        return party * hosts // workers
    return party % hosts


def shard_party(plan: Plan, workers: int, shard: int) -> int:
    """The index of the party that hosts server shard `shard`."""
    return shard if plan.servers.where == "beside" else workers + shard


def device_party(plan: Plan, workers: int, device: int) -> int:
    """The index of the party in which device `device` computes."""
    return next(party.index for party in parties(plan, workers) if party.device == device)


def team_of(plan: Plan, layer: LayerPlan, workers: int) -> range:
    """The workers that hold a layer, by their rank among themselves: its exchange is theirs."""
    if layer.placement != "stage":
        return range(workers)
    assert plan.pipeline is not None, "resolve the plan first"
    assert layer.place is not None
    return range(layer.place, workers, plan.pipeline.stages)
