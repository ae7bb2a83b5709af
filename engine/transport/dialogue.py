"""What a process and its peers say on their control connections: credit, signs of life, time, partings."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from engine.transport.clock import AttemptClock
from engine.transport.control import Control, Frame
from engine.transport.counters import Counters
from engine.transport.credit import Window
from engine.transport.errors import PeerLost, gave_up
from engine.transport.peer import Peer

_DATA_END_GRACE_NS = 2 * 10**9
_JUST_NS = 2_000_000
"""About as long as the others' slices take between two of one sender, from 100 Mbit/s on. On slower links senders of
short messages are counted too low, and more of them is on its way."""

PingAnswered = Callable[[int, int, int], None]
"""(sent here, seen there, received here), in nanoseconds of the two attempt clocks."""

LostCallback = Callable[[int, str], None]
"""Is told the number of a peer that was lost, and the reason, in the I/O thread; must not block."""


class Dialogue:
    """Belongs to the I/O thread; only `handled`, `credit_withheld` and `may_lose` may be called from others. What it
    reads may raise PeerLost, but not of a peer that may be lost."""

    def __init__(
        self,
        peers: dict[int, Peer],
        *,
        clock: AttemptClock,
        counters: Counters,
        window: Window,
        silence_ns: int,
    ) -> None:
        self.peers = peers
        self.window = window
        self._clock = clock
        self._counters = counters
        self._silence_ns = silence_ns
        self._awake_ns: int | None = None
        self._handled: deque[tuple[Peer, int]] = deque()
        self._withheld: set[int] = set()
        """Peers that wait for our handlers."""
        self._ping_answered: PingAnswered | None = None
        self._expendable: frozenset[int] = frozenset()
        self._peer_lost: LostCallback | None = None

    # Credit.

    def handled(self, peer: Peer, cost_bytes: int) -> None:
        """A consumer finished a message from `peer`."""
        self._handled.append((peer, cost_bytes))

    def credit_withheld(self) -> bool:
        """Whether some sender waits for our handlers, so that what they finish is worth waking up for."""
        return bool(self._withheld)

    def owes_credit(self) -> bool:
        """Whether something was finished that a sender may be waiting for."""
        return self.credit_withheld() and bool(self._handled)

    def senders(self, one: Peer | None = None) -> int:
        """How many peers are sending to us: in the middle of a message, or their last one has just come. Short
        messages are mostly between two. `one` counts in any case."""
        since_ns = time.monotonic_ns() - _JUST_NS
        return sum(
            peer is one or peer.inbox.in_message() or peer.data_heard_ns > since_ns
            for peer in self.peers.values()
            if not peer.gone
        )

    def grant(self, peer: Peer, senders: int) -> None:
        """Give `peer`, one of `senders`, the credit that is due, if it is worth a frame."""
        if peer.gone:
            return
        credit = peer.inbox.credit
        count = credit.take_grant(self.window.share(senders), alone=senders == 1)
        if credit.withheld():
            self._withheld.add(peer.index)
        else:
            self._withheld.discard(peer.index)
        if count:
            peer.control.put(Frame(Control.CREDIT, count))
            self.flush(peer)

    def return_credit(self) -> None:
        """Account for what the consumers finished."""
        if not self._handled:
            return
        touched = {}
        while self._handled:
            peer, cost = self._handled.popleft()
            peer.inbox.credit.handled += cost
            touched[peer.index] = peer
        for peer in touched.values():
            self.grant(peer, self.senders(peer))

    # Signs of life, time.

    def may_lose(self, expendable: frozenset[int], lost: LostCallback) -> None:
        """From now on the loss of one of these is told to `lost`, and fails nothing."""
        self._peer_lost = lost  # first: who is expendable is looked at by the I/O thread at any moment
        self._expendable = expendable

    def _lose(self, peer: Peer, error: PeerLost) -> None:
        """`peer` is of no use any more. Raises `error` unless it may be lost."""
        if peer.index not in self._expendable:
            raise error
        peer.control.put(Frame(Control.ABORT, peer.index, text=error.reason))
        self.flush(peer)
        peer.abandon(time.monotonic_ns())
        self._withheld.discard(peer.index)
        assert self._peer_lost is not None
        self._peer_lost(peer.index, error.reason)

    def beat(self, now_ns: int) -> None:
        """Give every peer a sign of life, and lose one that gives none."""
        for peer in self.peers.values():
            if peer.left or peer.gone:
                continue
            peer.control.put(Frame(Control.HEARTBEAT))
            if peer.heard_ns is not None and now_ns - peer.heard_ns > self._silence_ns:
                silent = (
                    f"no sign of life for {(now_ns - peer.heard_ns) / 1e9:.1f} s; the job allows"
                    f" {self._silence_ns / 1e9:g} s (cluster.silence_s: give more where workers may stop for so long)"
                )
                self._lose(peer, peer.lost(silent))
            elif peer.data_ended_ns is not None and now_ns - peer.data_ended_ns > _DATA_END_GRACE_NS:
                self._lose(peer, peer.lost(peer.data_end_reason))

    def awake(self, now_ns: int) -> None:
        """To be called at every turn: after a long sleep of this process, silence counts from now."""
        if self._awake_ns is not None and now_ns - self._awake_ns > self._silence_ns // 2:
            for peer in self.peers.values():
                if peer.heard_ns is not None:
                    peer.heard_ns = now_ns
        self._awake_ns = now_ns

    def ping(self, peer: int, answered: PingAnswered) -> None:
        """Ask `peer` what time it is; one question at a time."""
        self._ping_answered = answered
        self.peers[peer].control.put(Frame(Control.PING, self._clock.now_ns()))

    # Frames.

    def flush(self, peer: Peer) -> None:
        """Give the kernel what waits for `peer`."""
        try:
            count = peer.control.flush()
        except OSError:
            return  # reading it will tell what happened, with what it still had to say
        if count:
            self._counters.sent(peer.index, -1, 0, count)

    def read(self, peer: Peer) -> None:
        """Take in what `peer` said and do it. Raises PeerLost where it is gone or gave up, unless it may be lost."""
        if peer.gone:
            return
        try:
            self._take_in(peer)
        except PeerLost as error:
            self._lose(peer, error)

    def _take_in(self, peer: Peer) -> None:
        try:
            count = peer.control.receive()
            reason = "its connections closed without a goodbye: it was killed or crashed"
        except OSError as error:
            count, reason = None, f"its control connection broke ({error}): it was killed or crashed"
        if count is None:
            if not peer.left:
                raise peer.lost(reason)
            if not peer.outbox.empty():
                raise peer.lost("it left in good order while messages for it were still queued")
            peer.gone = True
            return
        peer.heard_ns = time.monotonic_ns()
        self._counters.received(peer.index, -1, 0, count)
        for frame in peer.control.frames():
            self._obey(peer, frame)

    def _obey(self, peer: Peer, frame: Frame) -> None:
        match frame.kind:
            case Control.CREDIT:
                peer.outbox.credit.granted(frame.a)
            case Control.PING:
                peer.control.put(Frame(Control.PONG, frame.a, self._clock.now_ns()))
                self.flush(peer)
            case Control.PONG:
                if self._ping_answered is not None:
                    self._ping_answered(frame.a, frame.b, self._clock.now_ns())
            case Control.GOODBYE:
                peer.left = True
            case Control.FAREWELL:
                peer.confirmed = True
            case Control.ABORT:
                raise gave_up(peer.index, frame.a, {i: p.name for i, p in self.peers.items()}, frame.text)
            case Control.HEARTBEAT:
                pass
