"""How much memory a worker holds, once a second, as metrics: of the host's, of its device's, and on its way between.

Each figure says whose count it is (`COUNTERS`). PyTorch's allocator of the host counts nothing, so that of the host's
memory only the process as a whole is known, with the code of its libraries and what `malloc` has not given back. That
of a CUDA device counts what tensors hold.

What was the most since the sample before, the kernel and PyTorch each count themselves, and are told to begin anew: a
program that reads VmHWM, `ru_maxrss` or `torch.cuda.max_memory_allocated()` in the same process finds the most since
then.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from engine.telemetry.recorder import Recorder

RESIDENT = "resident_bytes"
RESIDENT_PEAK = "resident_peak_bytes"
DEVICE = "device_bytes"
ALLOCATED = "allocated_bytes"
ALLOCATED_PEAK = "allocated_peak_bytes"
TRANSIT = "transit_bytes"
COUNTERS: Mapping[str, str] = {
    RESIDENT: "pages of the process in memory, by the kernel; those it shares with others (torch's own) count in each",
    RESIDENT_PEAK: "the most of them since the sample before, by the kernel",
    DEVICE: "what the process keeps of its device, in use or not, by PyTorch's allocator",
    ALLOCATED: "what tensors on the device hold, by PyTorch's allocator",
    ALLOCATED_PEAK: "the most of that since the sample before, by PyTorch's allocator",
    TRANSIT: "saved bytes on their way to a second tier of memory or back, by the mechanism that moves them",
}
"""What each is, and who counts it."""
MEASURES = tuple(COUNTERS)
PEAKS = (RESIDENT_PEAK, ALLOCATED_PEAK)
STATM = Path("/proc/self/statm")
STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")
FORGET_PEAK = "5"
"""What lets the kernel's VmHWM begin anew (proc(5))."""


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


def resident_peak_bytes() -> int | None:
    """The most since the call before; None where the system does not count that anew."""
    try:
        lines = STATUS.read_text().splitlines()
        CLEAR.write_text(FORGET_PEAK)
    except OSError:
        return None
    found = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return found[0] * 1024 if found else None


class MemorySampler:
    """A thread that notes this process's memory, at once and until `close`: what is shorter than a period has two
    samples, of its begin and of its end."""

    def __init__(
        self,
        recorder: Recorder,
        step: Callable[[], int],
        device: Callable[[], Mapping[str, int]] | None = None,
        transit: Callable[[], int] = lambda: 0,
        *,
        period_s: float = 1.0,
    ) -> None:
        """`step` is the one that is being computed: of several samples in one step the last is kept, and the most of
        their peaks. `device` reads its measures by name; None for a device that shares the host's memory. `transit`
        reads TRANSIT, which is noted once there was any."""
        self._recorder = recorder
        self._step = step
        self._device = device
        self._transit = transit
        self._any_transit = False
        self._period_s = period_s
        self._last_step = -1
        self._peaks: dict[str, int] = {}
        """Of the step that was sampled last."""
        resident_peak_bytes()  # what this process held before is nobody's peak
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
        found = {RESIDENT: resident_bytes(), RESIDENT_PEAK: resident_peak_bytes()}
        found |= {} if self._device is None else self._device()
        moving = self._transit()
        self._any_transit = self._any_transit or moving > 0
        found |= {TRANSIT: moving} if self._any_transit else {}
        step = self._step()
        if step != self._last_step:
            self._last_step = step
            self._peaks.clear()
        for measure, value in found.items():
            if value is None:
                continue
            if measure in PEAKS:
                value = self._peaks[measure] = max(value, self._peaks.get(measure, 0))  # noqa: PLW2901
            self._recorder.metric(series(measure, self._recorder.name), step, value)
