"""The executor `ray` on a real node, with gangs of small programs (`gang_of_programs.py`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from backend.chaos.ray_nodes import RayNodes, ray_nodes
from backend.executors.base import NO_SECRETS, Handle, Ingest
from backend.executors.host_supervisor import HostSupervisor, end_with
from backend.executors.ray_executor import RayExecutor
from backend.executors.ray_node import Node
from backend.executors.supervisor import main
from engine.launch import Launch
from engine.plan.job import NetworkSpec
from tests.backend.gang_of_programs import Programs


class ProgramsNode(Node):
    """What runs on the node."""

    supervisor = "tests.backend.ray_programs"


@contextmanager
def real_cluster(count: int, *, cpus: int) -> Iterator[RayNodes]:
    """A cluster that this process leaves before it ends: Ray ends whoever has lost its head."""
    with ray_nodes(count, cpus=cpus) as nodes:
        yield nodes
        if "ray" in sys.modules:
            sys.modules["ray"].shutdown()


def ray_programs(nodes: RayNodes) -> RayExecutor:
    """An executor whose class makes more of its kind without being told anything."""

    class ProgramsExecutor(RayExecutor):
        folder = nodes.own(max(nodes.nodes))

        def __init__(self) -> None:
            super().__init__(nodes.address, ProgramsNode)

        def launch(self, launch: Launch, ingest: Ingest, secrets: Mapping[str, str] = NO_SECRETS) -> Handle:
            trusted = replace(launch.job, network=NetworkSpec(trusted=True))
            return super().launch(replace(launch, job=trusted), ingest, secrets)

    return ProgramsExecutor()


def _make(launch: Launch) -> Programs:
    end_with(int(sys.argv[1]))
    return Programs(launch)


if __name__ == "__main__":
    main(_make, HostSupervisor)  # type: ignore[arg-type]
