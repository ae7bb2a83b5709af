"""A Ray cluster of its own on this machine: a head, and nodes at loopback addresses, each with a folder of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from backend.chaos.ports import reserved
from backend.executors import process
from backend.executors.process import Identity
from backend.executors.ray_node import FOLDER

START_S = 120.0
RAY = (sys.executable, "-m", "ray.scripts.scripts")
"""Ray's own command line, by this interpreter."""
_OF_RAY = ("ray", "gcs_server")
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_health_check_timeout_ms": "5000"}


class RayNodes:
    """The cluster while the block lasts."""

    def __init__(self, folder: Path, address: str, cpus: int) -> None:
        """`cpus`: of a node."""
        self.folder = folder
        self.address = address
        """Of its head, `HOST:PORT`."""
        self.cpus = cpus
        self.nodes: dict[str, Identity] = {}
        """Each node's address, and the process that everything of Ray's on it descends from."""

    def add(self, number: int, *arguments: str, cpus: int = 2) -> str:
        """Start a node, and answer its address. Raises RuntimeError where it does not start."""
        return self.start(f"127.0.1.{number}", *arguments, cpus=cpus)

    def start(self, address: str, *arguments: str, cpus: int, before: tuple[str, ...] = ()) -> str:
        """The same, at any address of this machine. `before`: the command that runs it elsewhere than here."""
        own = self.own(address)
        own.mkdir(exist_ok=True)
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TRAINYARD_")},
            **_QUIET,
            FOLDER: str(own),
            "PYTHONPATH": str(Path.cwd()),
        }
        sizes = (f"--num-cpus={cpus}", "--object-store-memory=80000000", "--disable-usage-stats", "--block")
        log = own / "ray.log"
        with log.open("wb") as output:
            command = [*before, *RAY, "start", f"--node-ip-address={address}", *sizes, *arguments]
            child = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        deadline = time.monotonic() + START_S
        while "Ray runtime started" not in log.read_text():
            if child.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Ray did not start at {address}:\n{log.read_text()[-3000:]}")
            time.sleep(0.05)
        found = process.identity(child.pid)
        assert found is not None
        self.nodes[address] = found
        return address

    def again(self, address: str) -> None:
        """Start a node once more that was killed, with its folder."""
        self.add(int(address.rpartition(".")[2]), f"--address={self.address}", cpus=self.cpus)

    def own(self, address: str) -> Path:
        """The folder in which attempts' files lie on a node."""
        return self.folder / f"node-{address.rpartition('.')[2]}"

    def kill(self, address: str) -> None:
        """End Ray on a node at once: what it had started there has to end by itself."""
        node = self.nodes.pop(address)
        for each in (node, *process.descendants(node.pid)):
            if _name(each).startswith(_OF_RAY) or each == node:
                process.send(each, signal.SIGKILL)

    def close(self) -> None:
        """End all of it."""
        for address in list(self.nodes):
            self.kill(address)

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
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True))
        )
        port = stack.enter_context(reserved())
        made = RayNodes(folder, f"127.0.1.1:{port}", cpus)
        stack.callback(made.close)
        head = ("--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={folder / 'r'}")
        made.add(1, *head, cpus=0)
        for number in range(2, 2 + count):
            made.add(number, f"--address={made.address}", cpus=cpus)
        yield made
