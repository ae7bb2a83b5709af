"""What the I/O loop knows about one other party."""

from __future__ import annotations

import contextlib
import select
import socket

from engine.transport.control import Control, ControlChannel, Frame
from engine.transport.errors import PeerLost
from engine.transport.inbound import Inbox
from engine.transport.outbound import Outbox


class Peer:
    """One other party: its two connections, and where it stands in saying goodbye."""

    def __init__(
        self, index: int, name: str, *, paced: bool, data: socket.socket, control: socket.socket,
        outbox: Outbox, inbox: Inbox,
    ) -> None:  # fmt: skip
        self.index = index
        self.name = name
        self.paced = paced
        """Whether the path to it crosses a paced link."""
        self.data = data
        self.control = ControlChannel(control)
        self.outbox = outbox
        self.inbox = inbox
        self.data_interest: int | None = None
        """Events that epoll was told to wait for; None: not registered."""
        self.control_interest: int | None = None
        self.changed = True
        """Whether something has happened to its connections since it was settled what they wait for."""
        self.data_broken = False
        """Nothing can be written to its data connection any more."""
        self.full = False
        """The kernel took less than it was given: it will say when it takes more."""
        self.served = 0
        """When it was last written to: a turn number, for taking turns among equals."""
        self.read = 0
        """When it was last read from, likewise."""
        self.heard_ns: int | None = None
        """Monotonic time of the last sign of life; None before the first, while it may still be starting."""
        self.data_heard_ns = 0
        """Monotonic time of its last bytes of data."""
        self.data_ended_ns: int | None = None
        """When its data connection ended."""
        self.data_end_reason = ""
        self.left = False
        """It said goodbye."""
        self.goodbye_said = False
        """We said goodbye, after our last byte of data."""
        self.farewell_said = False
        """We confirmed that we read all its data."""
        self.confirmed = False
        """It confirmed that it read all our data."""
        self.gone = False
        """Its control connection ended after a goodbye, or nobody waits for it any more."""

    def lost(self, reason: str) -> PeerLost:
        """The error that says why this party is no longer with us."""
        return PeerLost(self.index, self.name, reason)

    def abandon(self, now_ns: int) -> None:
        """Go on without it: drop what waits for it, and end both connections, so that it hears of this if it lives."""
        self.gone = True
        self.end_data(now_ns, "", broken=True)
        self.outbox.drop()
        for sock in (self.data, self.control.sock):
            with contextlib.suppress(OSError):  # it has hung up already
                sock.shutdown(socket.SHUT_RDWR)
        self.changed = True

    def end_data(self, now_ns: int, reason: str, *, broken: bool) -> None:
        """Its data connection ended; whether that is a loss, the control connection will say."""
        self.data_broken |= broken
        if self.data_ended_ns is None:
            self.data_ended_ns, self.data_end_reason = now_ns, reason

    def parting(self, closing: bool) -> None:
        """Take the steps of an orderly end that are due."""
        if self.left and self.data_ended_ns is not None and not self.farewell_said:
            self.farewell_said = True
            self.control.put(Frame(Control.FAREWELL))
        if closing and not self.goodbye_said and not self.gone and self.outbox.empty():
            self.goodbye_said = True
            if not self.data_broken:
                with contextlib.suppress(OSError):  # it hung up first: its control connection tells why
                    self.data.shutdown(socket.SHUT_WR)
            self.control.put(Frame(Control.GOODBYE))

    def parted(self) -> bool:
        """Whether nothing more is owed to it: it has all our data, or it left for good."""
        return self.confirmed or self.gone

    def unsettled(self) -> bool:
        """Whether its connections may wait for something else than before: those of most peers do not, at a turn."""
        return self.changed or self.full or self.paced or self.control.has_output()

    def wants_to_write(self) -> bool:
        """Whether something waits for it that may leave."""
        return not (self.data_broken or self.goodbye_said) and self.outbox.urgency() is not None

    def wanted_data_events(self, *, may_read: bool, may_write: bool) -> int | None:
        """What to wait for on the data connection; None: nothing, not even its end, which was seen."""
        if self.data_broken:
            return None
        events = select.EPOLLIN if self.data_ended_ns is None and may_read else 0
        if may_write and (self.paced or self.full) and self.wants_to_write():
            events |= select.EPOLLOUT
        return events if events or self.data_ended_ns is None else None
