"""The clock of what a device computes."""

from __future__ import annotations

from collections.abc import Callable

import torch

from engine.telemetry.span_clock import EventClock, HostClock, SpanClock


def span_clock(now_ns: Callable[[], int], device: torch.device) -> SpanClock:
    """The host's on a CPU; on CUDA, events in the streams that threads issue work to. Called before the first work: it
    waits once until the device is idle."""
    if device.type != "cuda":
        return HostClock(now_ns)

    def record() -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(device))
        return event

    def idle() -> bool:
        return torch.cuda.current_stream(device).query()

    torch.cuda.synchronize(device)
    return EventClock(now_ns, record, idle)
