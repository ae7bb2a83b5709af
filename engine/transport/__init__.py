"""Host-memory transport between the processes of a job: priorities, credit, pacing, byte counters.

Start with `endpoint.Endpoint`; the protocol is `message` (data) and `control`, the I/O thread is `loop`.
Only `rendezvous` imports torch.
"""

from engine.transport.clock import Alignment, AttemptClock
from engine.transport.counters import Counters, Traffic
from engine.transport.endpoint import Endpoint
from engine.transport.errors import (
    DeadlineMissed,
    DisagreementError,
    PeerLost,
    ProtocolError,
    TransportError,
)
from engine.transport.message import Header
from engine.transport.observer import Observer
from engine.transport.pacing import Pacer
from engine.transport.queue import PriorityQueue

__all__ = [
    "Alignment",
    "AttemptClock",
    "Counters",
    "DeadlineMissed",
    "DisagreementError",
    "Endpoint",
    "Header",
    "Observer",
    "Pacer",
    "PeerLost",
    "PriorityQueue",
    "ProtocolError",
    "Traffic",
    "TransportError",
]
