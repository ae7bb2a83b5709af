"""How a gang gets onto the nodes of a Ray cluster: room for all of it, an actor on each node, and its parties there.

All nodes are asked side by side, and all of it together has one deadline. Whoever calls this waits for it.
"""

from __future__ import annotations

import secrets as random
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from backend.executors.base import Ingest, LaunchError
from backend.executors.ray_cluster import RayCluster
from backend.executors.ray_gang import RayGang, addresses_of
from engine.errors import UserError
from engine.launch import REPLAY, Launch
from engine.plan.on_disk import read_by

START_S = 60.0
"""How long all nodes of a gang may take together to start their actors, Python's imports included, and its parties."""


def place(cluster: RayCluster, gang: RayGang, launch: Launch) -> RayGang:
    """The gang with room for each of its workers. Raises LaunchError where the cluster has not enough."""
    asked = launch.job.cluster
    bundles = [{"CPU": float(asked.threads)}] * asked.workers
    return gang.on(cluster.reserve(gang.group, bundles, spread=asked.nodes == "spread"))


def start(
    cluster: RayCluster,
    gang: RayGang,
    launch: Launch,
    ingest: Ingest,
    secrets: Mapping[str, str],
    wanted: Callable[[], None],
) -> None:
    """Start the parties of a gang that has room. `wanted` raises where somebody does not want them any more. Raises
    LaunchError where a node refuses, or does not answer in time; then some may run."""
    deadline = time.monotonic() + START_S

    def answers(asked: list[Any]) -> list[Any]:
        ready = cluster.ready(asked, max(0.0, deadline - time.monotonic()))
        silent = [host.address for host, one in zip(gang.hosts, asked, strict=True) if one not in ready]
        if silent:
            rule = f"did not answer within {START_S:g} s, in which all nodes have to start the gang"
            raise LaunchError(
                f"node {' and node '.join(silent)} {rule}. Look after it, and submit the job again"
            )
        wanted()
        return [cluster.answer(one, 0) for one in asked]

    actors = [cluster.start(gang.group, host.bundle, host.actor) for host in gang.hosts]
    needed = {str(one.path): one for one in read_by(launch.job)}
    lacking = answers([actor.lacks.remote(list(needed)) for actor in actors])
    for host, paths in zip(gang.hosts, lacking, strict=True):
        for path in paths:
            raise UserError(
                needed[path].field,
                path,
                f"node {host.address} has nothing there, and code and data are not sent to nodes",
                "Put it there under the same name on every node, or on a disk that all nodes share",
            )
    addresses = addresses_of(launch, gang.spots)
    port = None
    if addresses:
        ports = answers(
            [actor.free_port.remote(host.address) for actor, host in zip(actors, gang.hosts, strict=True)]
        )
        port = next(p for p, host in zip(ports, gang.hosts, strict=True) if host.address == addresses[0])
    told = replace(launch, addresses=addresses, port=port, checkpoints=None).to_dict()
    token = random.token_bytes(32)
    answers(
        [
            actor.launch.remote(
                gang.place, told, token, host.address if addresses else None, ingest, dict(secrets)
            )
            for actor, host in zip(actors, gang.hosts, strict=True)
        ]
    )


def check(launch: Launch) -> None:
    """Raise UserError for what does not run on nodes of a Ray cluster yet."""
    job = launch.job
    if not job.network.trusted:
        raise UserError(
            "network.trusted",
            job.network.trusted,
            "Ray's own connections, and ours between nodes, are not encrypted",
            "Say network: {trusted: true} where nobody else hears or changes what travels there, or run the job with"
            " the executor local",
        )
    if job.checkpoint.asked is not None:
        rule = "a checkpoint lies on one node, and the next attempt may run on others"
        raise UserError("checkpoint", job.checkpoint.asked, rule, "Leave it out, or use the executor local")
    if job.checkpoint.start is not None:
        rule = "what the job begins with is put together on the server's machine"
        raise UserError(
            "checkpoint.start.job", job.checkpoint.start.job, rule, "Leave it out, or use the executor local"
        )
    if job.cluster.worker_loss != "end":
        rule = "who was lost is written down where all parties see it"
        raise UserError("cluster.worker_loss", job.cluster.worker_loss, rule, "Use end")
    if job.network.hosts is not None:
        rule = "a lab's hosts are on one machine, and the nodes have addresses of their own"
        raise UserError("network.hosts", job.network.hosts, rule, "Leave it out")
    if strange := set(launch.devices) - {"cpu", REPLAY}:
        rule = "workers on a Ray cluster train on processors so far"
        raise UserError("cluster.device", ", ".join(sorted(strange)), rule, "Use cpu")
