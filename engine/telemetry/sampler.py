"""Byte counters every 10 ms, of network interfaces and of the transport; and what is known of an interface."""

from __future__ import annotations

import fcntl
import ipaddress
import logging
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from engine.telemetry.recorder import Recorder

Counters = Callable[[], tuple[int, int]]
"""Returns (tx_bytes, rx_bytes) since whenever."""

PROC_NET_DEV = Path("/proc/net/dev")
SYS_NET = Path("/sys/class/net")
LOOPBACK_INTERFACE = "lo"
_SIOCGIFADDR = 0x8915
_IFREQ = struct.Struct("256s")
"""A name of up to 16 bytes, then the socket address: family, port, and the IPv4 address in bytes 20 to 23."""
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


def interface_rate_bps(interface: str, sys_net: Path = SYS_NET) -> int | None:
    """The link speed that the interface reports, in bit/s; None for a virtual or an unplugged one: a veth reports
    10 Gbit/s and moves what the processor can. Behind a `device` is hardware, or another machine's; a bond's rate is
    its links' sum."""
    place = sys_net / interface
    if not ((place / "device").exists() or (place / "bonding").exists()):
        return None
    try:
        megabits = int((place / "speed").read_text())
    except (OSError, ValueError):
        return None
    return megabits * 1_000_000 if megabits > 0 else None


def interface_of(address: str) -> str | None:
    """The interface of this host that has an IPv4 address as its first one; None where none has."""
    if ipaddress.ip_address(address).is_loopback:
        return LOOPBACK_INTERFACE
    return next((name for _, name in socket.if_nameindex() if interface_address(name) == address), None)


def interface_address(interface: str) -> str | None:
    """The first IPv4 address of an interface of this host; None where it has none, or is gone."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            answer = fcntl.ioctl(asking, _SIOCGIFADDR, _IFREQ.pack(interface.encode()))
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])


class Sampler:
    """A thread that reads counters into the recorder, from construction until `close`."""

    def __init__(
        self, recorder: Recorder, counters: Mapping[str, Counters], *, period_s: float = 0.01
    ) -> None:
        """`counters` by the link's name in the records: e.g. `interface_counters("eth0")`, or the transport's own."""
        self._recorder = recorder
        self._counters = dict(counters)
        self._period_s = period_s
        self._stop = threading.Event()
        self._sample()
        self._thread = threading.Thread(target=self._loop, name="link-sampler", daemon=True)
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
            self._sample()

    def _sample(self) -> None:
        for interface, counters in list(self._counters.items()):
            try:
                tx_bytes, rx_bytes = counters()
            except (OSError, ValueError) as error:
                logger.warning("%s is no longer sampled: %s", interface, error)
                del self._counters[interface]
                continue
            self._recorder.link(interface, tx_bytes=tx_bytes, rx_bytes=rx_bytes)
