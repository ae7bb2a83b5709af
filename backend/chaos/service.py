"""The server under test: `trainyard serve` in a process of its own, started again on the same port."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from backend.client import Client, ServerUnreachableError

SOURCE = Path(__file__).resolve().parents[2]
START_S = 60.0


class Service:
    """One server at a time over one data directory."""

    def __init__(
        self,
        data_dir: Path,
        *,
        ingest_url: str,
        port: int,
        devices: int,
        data_plane: str,
        database: str,
        ray: str | None,
    ) -> None:
        """`ray`: the address of a Ray cluster on which its jobs run; None: on this machine."""
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.log = data_dir / "server.log"
        self._data_dir = data_dir
        self._process: subprocess.Popen[bytes] | None = None
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TRAINYARD_")}
        self._environment = kept | {
            "TRAINYARD_DATA_DIR": str(data_dir),
            "TRAINYARD_CPU_DEVICES": str(devices),
            "TRAINYARD_INGEST_URL": ingest_url,
            "TRAINYARD_DATA_PLANE": data_plane,
            "TRAINYARD_DATABASE_URL": database,
        }
        if ray is not None:
            self._environment |= {"TRAINYARD_EXECUTOR": "ray", "TRAINYARD_RAY_ADDRESS": ray}

    @property
    def up(self) -> bool:
        """Whether its process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self, *, wait: bool = True) -> None:
        """Start it, and wait until it answers. Raises RuntimeError where it ends instead."""
        command = [sys.executable, "-m", "backend.cli.main", "serve", "--port", str(self.port)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=SOURCE, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        if wait:
            self.wait()

    def wait(self) -> None:
        """Return when it answers. Raises RuntimeError where it has ended, or after a minute."""
        deadline = time.monotonic() + START_S
        with Client(self.url, timeout_s=5) as client:
            while True:
                try:
                    client.health()
                    return
                except ServerUnreachableError:
                    if not self.up or time.monotonic() > deadline:
                        raise RuntimeError(f"the server did not start:\n{self.last_words()}") from None
                    time.sleep(0.05)

    def last_words(self) -> str:
        """The end of its log."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-3000:]

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """As a person stops it; by force after 20 s."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()
