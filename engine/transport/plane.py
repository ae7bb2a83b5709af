"""Who moves an endpoint's bytes: a thread in Python (`loop`), or one in C (`in_c`) where it has been built.

Both speak the same wire format, so that every party may choose for itself.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, cast, get_args

from engine.transport.buffers import ScratchPool
from engine.transport.credit import ReceiverCredit, SenderCredit, Window
from engine.transport.dialogue import Dialogue, LostCallback, PingAnswered
from engine.transport.in_c.library import library
from engine.transport.in_c.loop import CLoop
from engine.transport.in_c.settings import Settings
from engine.transport.inbound import Inbox
from engine.transport.lane import LaneQueue
from engine.transport.loop import Loop
from engine.transport.message import Outgoing
from engine.transport.observer import Watch
from engine.transport.outbound import Outbox
from engine.transport.pacing import PacedLink
from engine.transport.peer import Peer

DataPlaneChoice: TypeAlias = Literal["python", "c", "auto"]
CHOICES = get_args(DataPlaneChoice)
FORMERLY = {"compiled": "c"}
"""Names that launches and environments of older versions have."""
VARIABLE = "TRAINYARD_DATA_PLANE"
Sockets: TypeAlias = Mapping[int, tuple[socket.socket, socket.socket]]
"""Data and control connection with each peer."""


class DataPlane(Protocol):
    """What an endpoint asks of who moves its bytes; any thread may call it."""

    parted: threading.Event
    """Set when an orderly end has been completed with every peer."""

    def start(self) -> None:
        """Start the thread."""
        ...

    def put(self, peer: int, message: Outgoing, *, hurry: bool) -> None:
        """Queue a message for `peer`; never blocks. Without `hurry` the I/O thread is not woken for it."""
        ...

    def nudge(self) -> None:
        """Look at what was queued without hurry, in the lanes, too."""
        ...

    def may_lose(self, expendable: frozenset[int], lost: LostCallback) -> None:
        """From now on the loss of one of these is told to `lost`, in the I/O thread, and fails nothing."""
        ...

    def wake(self) -> None:
        """Something has been put into a lane: look at it."""
        ...

    def ping(self, peer: int, answered: PingAnswered) -> None:
        """Ping `peer`; `answered` is called in the I/O thread."""
        ...

    def part(self) -> None:
        """Begin an orderly end."""
        ...

    def missing(self) -> list[str]:
        """Names of the peers with which an orderly end is not complete."""
        ...

    def abort(self, culprit: int, reason: str) -> None:
        """End now, telling every peer who is at fault and why."""
        ...

    def stop(self) -> None:
        """End now."""
        ...

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread; answers whether it ended. True at once when called by it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """What an endpoint gives to either."""

    name: str
    names: Mapping[int, str]
    """Of the peers."""
    paced: frozenset[int]
    """Peers to whom the path crosses a paced link."""
    egress: PacedLink | None
    ingress: PacedLink | None
    lanes: Mapping[int, LaneQueue]
    pool: ScratchPool
    watch: Watch
    failed: Callable[[BaseException], None]
    credit_bytes: int | None
    backlog_bytes: int
    heartbeat_s: float
    silence_s: float


def asked(choice: str | None = None) -> DataPlaneChoice:
    """The choice, or without one what the environment says. Raises ValueError for what is none."""
    choice = choice or os.environ.get(VARIABLE) or "auto"
    choice = FORMERLY.get(choice, choice)
    if choice not in CHOICES:
        raise ValueError(f"data_plane = {choice!r} ({VARIABLE}): one of {', '.join(CHOICES)}")
    return cast("DataPlaneChoice", choice)


def chosen(choice: str | None) -> Literal["python", "c"]:
    """What the choice, or without one the environment, comes to here. Raises ValueError for anything else, and for
    a data plane that is not there."""
    choice = asked(choice)
    if choice == "c" and library() is None:
        raise ValueError(
            f"data_plane = 'c' ({VARIABLE}): it has not been built; run `python -m engine.transport.in_c`,"
            " or take 'auto' or 'python'"
        )
    return "python" if choice == "python" or library() is None else "c"


def make(choice: Literal["python", "c"], sockets: Sockets, wiring: Wiring) -> DataPlane:
    """The data plane of `choice`, not yet started. It owns the sockets from now on."""
    found = library() if choice == "c" else None
    if found is not None:
        return CLoop(
            found,
            {peer: (data.detach(), control.detach()) for peer, (data, control) in sockets.items()},
            Settings(
                window_bytes=wiring.credit_bytes,
                backlog_bytes=wiring.backlog_bytes,
                heartbeat_ns=round(wiring.heartbeat_s * 1e9),
                silence_ns=round(wiring.silence_s * 1e9),
            ),
            names=wiring.names,
            paced=wiring.paced,
            egress=wiring.egress,
            ingress=wiring.ingress,
            lanes=wiring.lanes,
            pool=wiring.pool,
            watch=wiring.watch,
            failed=wiring.failed,
            name=wiring.name,
        )
    return _python(sockets, wiring)


def _python(sockets: Sockets, wiring: Wiring) -> Loop:
    watch = wiring.watch

    def peer(index: int, data: socket.socket, control: socket.socket) -> Peer:
        credit = SenderCredit()
        inbox = Inbox(
            data, index, lanes=wiring.lanes, pool=wiring.pool,
            handled=lambda _, cost_bytes: loop.handled(made, cost_bytes), granted=credit.granted,
            credit=ReceiverCredit(wiring.backlog_bytes), watch=watch,
        )  # fmt: skip
        outbox = Outbox(data, index, credit=credit, watch=watch)
        made = Peer(
            index, wiring.names[index], paced=index in wiring.paced, data=data, control=control,
            outbox=outbox, inbox=inbox,
        )  # fmt: skip
        return made

    dialogue = Dialogue(
        {index: peer(index, *pair) for index, pair in sockets.items()},
        clock=watch.clock,
        counters=watch.counters,
        window=Window(wiring.credit_bytes),
        silence_ns=round(wiring.silence_s * 1e9),
    )
    loop = Loop(
        dialogue,
        egress=wiring.egress,
        ingress=wiring.ingress,
        heartbeat_s=wiring.heartbeat_s,
        failed=wiring.failed,
        lanes=tuple(wiring.lanes.values()),
        make_peer=peer,
        name=wiring.name,
    )
    return loop
