"""How a data plane in C behaves, as the library is told."""

from __future__ import annotations

from dataclasses import dataclass

from engine.transport.in_c.library import Options
from engine.transport.pacing import PacedLink


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a data plane behaves: the endpoint's own settings."""

    window_bytes: int | None
    backlog_bytes: int
    heartbeat_ns: int
    silence_ns: int


def options(settings: Settings, egress: PacedLink | None, ingress: PacedLink | None) -> Options:
    """The structure that the library wants. Where there are links, their memory is in use as long as the library is."""
    found = Options(
        heartbeat_ns=settings.heartbeat_ns,
        silence_ns=settings.silence_ns,
        window_bytes=settings.window_bytes or 0,
        backlog_bytes=settings.backlog_bytes,
    )
    if egress is not None and ingress is not None:
        shared = egress.shared()
        found.pacer_file, found.pacer_rate_bps = shared.file, shared.rate_bps
        found.pacer_chunk_bytes = egress.chunk_bytes
        found.egress_state, found.ingress_state = shared.address, ingress.shared().address
    return found
