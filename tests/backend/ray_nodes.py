"""A real Ray cluster for tests: a head, and nodes at loopback addresses of their own, each with a folder of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from backend.chaos.ports import reserved
from backend.executors import process
from backend.executors.process import Identity
from backend.executors.ray_node import FOLDER
from tests.backend.executor_attempts import until
from tests.lanes import require

_OF_RAY = ("ray", "gcs_server")
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_health_check_timeout_ms": "5000"}


class RayNodes:
    """The cluster while the block lasts."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.address = address
        self.nodes: dict[str, Identity] = {}
        """Each node's address, and the process that everything of Ray's on it descends from."""

    def add(self, number: int, *arguments: str, cpus: int = 2) -> str:
        """Start a node, and answer its address."""
        require("server_lane")
        address = f"127.0.1.{number}"
        own = self.folder / f"node-{number}"
        own.mkdir()
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TRAINYARD_")},
            **_QUIET,
            FOLDER: str(own),
            "PYTHONPATH": str(Path.cwd()),
        }
        sizes = (f"--num-cpus={cpus}", "--object-store-memory=80000000", "--disable-usage-stats", "--block")
        log = own / "ray.log"
        with log.open("wb") as output:
            child = subprocess.Popen(
                [
                    Path(sys.executable).with_name("ray"),
                    "start",
                    f"--node-ip-address={address}",
                    *sizes,
                    *arguments,
                ],
                env=environment,
                stdout=output,
                stderr=output,
            )
        until(lambda: "Ray runtime started" in log.read_text(), f"Ray has started at {address}")
        found = process.identity(child.pid)
        assert found is not None
        self.nodes[address] = found
        return address

    def kill(self, address: str) -> None:
        """End Ray on a node at once: what it had started there has to end by itself."""
        node = self.nodes.pop(address)
        for each in (node, *process.descendants(node.pid)):
            if _name(each).startswith(_OF_RAY):
                process.send(each, signal.SIGKILL)

    def pause(self, address: str, number: signal.Signals) -> None:
        """Stop Ray's own process on a node (SIGSTOP), or let it go on: nothing of the node answers meanwhile."""
        for each in process.descendants(self.nodes[address].pid):
            if _name(each) == "raylet":
                process.send(each, number)


def _name(which: Identity) -> str:
    try:
        return Path(f"/proc/{which.pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""  # it has ended


@contextmanager
def ray_nodes(count: int, *, cpus: int = 2) -> Iterator[RayNodes]:
    """A head without processors at 127.0.1.1, and `count` nodes."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ray-")))
        port = stack.enter_context(reserved())
        made = RayNodes(folder, f"127.0.1.1:{port}")
        stack.callback(lambda: [made.kill(address) for address in list(made.nodes)])
        head = ("--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={folder / 'r'}")
        made.add(1, *head, cpus=0)
        for number in range(2, 2 + count):
            made.add(number, f"--address={made.address}", cpus=cpus)
        yield made
