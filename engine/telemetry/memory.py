"""How much memory a worker holds: its resident set, and what it keeps of its device. Once a second, as metrics."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from engine.telemetry.recorder import Recorder

RESIDENT = "resident_bytes"
"""Pages of the process in memory; those it shares with others (torch's own) count in each."""
DEVICE = "device_bytes"
"""What the process keeps of its device, in use or not."""
MEASURES = (RESIDENT, DEVICE)
STATM = Path("/proc/self/statm")


def series(measure: str, party: str) -> str:
    """Name of the metric that holds one party's `measure`."""
    return f"{measure} of {party}"


def resident_bytes() -> int | None:
    """This process's resident set; None where the system does not say (it is no Linux)."""
    try:
        pages = int(STATM.read_text().split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


class MemorySampler:
    """A thread that notes this process's memory, at once and until `close`: what is shorter than a period has two
    samples, of its begin and of its end."""

    def __init__(
        self,
        recorder: Recorder,
        step: Callable[[], int],
        device_bytes: Callable[[], int] | None = None,
        *,
        period_s: float = 1.0,
    ) -> None:
        """`step` is the one that is being computed: of several samples in one step the last is kept.
        `device_bytes` reads DEVICE; None for a device that shares the host's memory."""
        self._recorder = recorder
        self._step = step
        self._device_bytes = device_bytes
        self._period_s = period_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="memory", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take a last sample and stop."""
        self._stop.set()
        self._thread.join()

    def _loop(self) -> None:
        self._sample()
        ended = False
        while not ended:
            ended = self._stop.wait(self._period_s)
            self._sample()

    def _sample(self) -> None:
        resident = resident_bytes()
        device = None if self._device_bytes is None else self._device_bytes()
        for measure, value in ((RESIDENT, resident), (DEVICE, device)):
            if value is not None:
                self._recorder.metric(series(measure, self._recorder.name), self._step(), value)
