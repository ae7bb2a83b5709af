"""Byte counters every 10 ms: of a network interface, or of the transport where the limit is in software."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from engine.telemetry.recorder import Recorder

Counters = Callable[[], tuple[int, int]]
"""Returns (tx_bytes, rx_bytes) since whenever."""

PROC_NET_DEV = Path("/proc/net/dev")
logger = logging.getLogger(__name__)


def interface_counters(interface: str) -> Counters:
    """A reader of the kernel's counters (Linux). Raises ValueError for an interface that does not exist.

    The file stays open: a hundred times a second, opening it costs more than reading it.
    """
    file = PROC_NET_DEV.open("rb", buffering=0)
    label = interface.encode()

    def read() -> tuple[int, int]:
        for line in _read_whole(file.fileno()).splitlines():
            name, _, rest = line.partition(b":")
            if name.strip() == label:
                column = rest.split()
                return int(column[8]), int(column[0])
        known = ", ".join(interfaces())
        raise ValueError(f"interface = {interface!r}: no such network interface on this host. Known: {known}")

    read()
    return read


def _read_whole(descriptor: int) -> bytes:
    """All of a file of the kernel's, which answers at most a page at a time."""
    found = b""
    while part := os.pread(descriptor, 65536, len(found)):
        found += part
    return found


def interfaces() -> list[str]:
    """Names of this host's network interfaces."""
    lines = PROC_NET_DEV.read_text().splitlines()
    return sorted(line.partition(":")[0].strip() for line in lines if ":" in line)


def interface_rate_bps(interface: str) -> int | None:
    """The link speed that the interface reports, in bit/s; None for a virtual or an unplugged one."""
    try:
        megabits = int((Path("/sys/class/net") / interface / "speed").read_text())
    except (OSError, ValueError):
        return None
    return megabits * 1_000_000 if megabits > 0 else None


class Sampler:
    """A thread that reads counters into the recorder, from construction until `close`."""

    def __init__(
        self, recorder: Recorder, interface: str, counters: Counters, *, period_s: float = 0.01
    ) -> None:
        """`interface` names the link in the records; `counters` is what to read, e.g.
        `interface_counters("eth0")` or the transport's own."""
        self._recorder = recorder
        self._interface = interface
        self._counters = counters
        self._period_s = period_s
        self._stop = threading.Event()
        self._sample()
        self._thread = threading.Thread(target=self._loop, name=f"sampler-{interface}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take a last sample and stop."""
        gone = not self._thread.is_alive()
        self._stop.set()
        self._thread.join()
        if not gone:
            self._sample()

    def _loop(self) -> None:
        due = time.monotonic()
        while True:
            due = max(due + self._period_s, time.monotonic())  # late ones are left out, not caught up
            if self._stop.wait(due - time.monotonic()):
                return
            try:
                self._sample()
            except (OSError, ValueError) as error:
                logger.warning("%s is no longer sampled: %s", self._interface, error)
                return

    def _sample(self) -> None:
        tx_bytes, rx_bytes = self._counters()
        self._recorder.link(self._interface, tx_bytes=tx_bytes, rx_bytes=rx_bytes)
