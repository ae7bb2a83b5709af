"""The one I/O thread of a process: waits in epoll, moves bytes, serves the control connections."""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from engine.transport.clock import AttemptClock
from engine.transport.control import Control, Frame
from engine.transport.counters import Counters
from engine.transport.credit import Window
from engine.transport.errors import PeerLost
from engine.transport.pacing import PacedLink
from engine.transport.peer import Peer

TURN_BYTES = 1 << 20
_DATA_END_GRACE_NS = 2 * 10**9
_COARSE_NS = 20_000_000
_READ = select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR


class Loop:
    """Runs until it is stopped or something fails; all peers are told why before the connections close."""

    def __init__(
        self,
        peers: Sequence[Peer],
        *,
        egress: PacedLink | None,
        ingress: PacedLink | None,
        clock: AttemptClock,
        counters: Counters,
        window: Window,
        heartbeat_s: float,
        silence_s: float,
        failed: Callable[[BaseException], None],
        name: str,
    ) -> None:
        self.parted = threading.Event()
        """Set when an orderly end has been completed with every peer."""
        self._peers = {peer.index: peer for peer in peers}
        self._egress = egress
        self._ingress = ingress
        self._egress_at_ns = 0
        self._ingress_at_ns = 0
        self._clock = clock
        self._counters = counters
        self._window = window
        self._heartbeat_ns = round(heartbeat_s * 1e9)
        self._silence_ns = round(silence_s * 1e9)
        self._failed = failed
        self._handled: deque[tuple[int, int]] = deque()
        self._commands: deque[Callable[[], None]] = deque()
        self._credit_withheld = False
        self._woken = False
        self._wake_lock = threading.Lock()
        self._closing = False
        self._stopping = False
        self._abort: Frame | None = None
        self._turn_number = 0
        self._pongs: Callable[[int, int, int, int], None] | None = None
        self._epoll = select.epoll()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wake_fd, select.EPOLLIN)
        self._by_fd: dict[int, tuple[Peer, bool]] = {}
        for peer in peers:
            self._by_fd[peer.data.fileno()] = (peer, True)
            self._by_fd[peer.control.sock.fileno()] = (peer, False)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    # Called from any thread.

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Make the thread look around, if it sleeps."""
        if self._woken:
            return
        with self._wake_lock:
            self._woken = True
            if self._wake_fd >= 0:
                os.eventfd_write(self._wake_fd, 1)

    def handled(self, peer: int, cost_bytes: int) -> None:
        """A consumer finished a message from `peer`."""
        self._handled.append((peer, cost_bytes))
        if self._credit_withheld:
            self.wake()

    def ping(self, peer: int, answered: Callable[[int, int, int, int], None]) -> None:
        """Ping `peer`; `answered(peer, sent here, seen there, received here)` is called in the I/O thread."""

        def command() -> None:
            self._pongs = answered
            self._peers[peer].control.put(Frame(Control.PING, self._clock.now_ns()))

        self._commands.append(command)
        self.wake()

    def part(self) -> None:
        """Begin an orderly end; `parted` is set when it is complete."""
        self._closing = True
        self.wake()

    def missing(self) -> list[str]:
        """Names of the peers with which an orderly end is not complete."""
        return [peer.name for peer in self._peers.values() if not peer.parted()]

    def abort(self, culprit: int, reason: str) -> None:
        """End now, telling every peer who is at fault and why."""
        if self._abort is None:
            self._abort = Frame(Control.ABORT, culprit, text=reason)
        self.stop()

    def stop(self) -> None:
        """End now."""
        self._stopping = True
        self.wake()

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread; answers whether it ended. True at once when called by it."""
        if self._thread is threading.current_thread():
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    # The I/O thread.

    def _run(self) -> None:
        try:
            self._loop()
        except BaseException as error:  # the endpoint reports it: nobody joins this thread to see it
            self._failed(error)
        finally:
            self._hang_up()

    def _loop(self) -> None:
        next_beat_ns = last_ns = time.monotonic_ns()
        for peer in self._peers.values():
            self._grant(peer)
        while True:
            self._woken = False  # before looking at what a waker may have left
            now_ns = time.monotonic_ns()
            if now_ns - last_ns > self._silence_ns // 2:
                self._forgive_silence(now_ns)  # it was us who slept
            last_ns = now_ns
            if now_ns >= next_beat_ns:
                next_beat_ns = now_ns + self._heartbeat_ns
                for peer in self._peers.values():
                    peer.control.put(Frame(Control.HEARTBEAT))
                self._check_signs_of_life(now_ns)
            while self._commands:
                self._commands.popleft()()
            self._return_credit()
            for peer in self._peers.values():
                peer.parting(self._closing)
            if self._closing and not self.missing():
                self.parted.set()
            if self._stopping:
                return
            self._settle_interests(now_ns)
            self._serve(self._wait(min(next_beat_ns, self._paced_at(now_ns, next_beat_ns))))

    def _wait(self, until_ns: int) -> list[tuple[int, int]]:
        """Block until something happens or the time comes."""
        if self._handled and self._credit_withheld:
            return self._epoll.poll(0)
        left_ns = max(until_ns - time.monotonic_ns(), 0)
        # Epoll rounds its own timeout up to a millisecond: too coarse for pacing. select: fds below 1024.
        if 0 < left_ns < _COARSE_NS and self._epoll.fileno() < 1024:
            select.select([self._epoll], [], [], left_ns / 1e9)
            return self._epoll.poll(0)
        return self._epoll.poll(left_ns / 1e9)

    def _paced_at(self, now_ns: int, default_ns: int) -> int:
        paced = (self._egress_at_ns, self._ingress_at_ns)
        return min((at_ns for at_ns in paced if at_ns > now_ns), default=default_ns)

    def _settle_interests(self, now_ns: int) -> None:
        """Tell epoll what each connection waits for."""
        may_read, may_write = now_ns >= self._ingress_at_ns, now_ns >= self._egress_at_ns
        for peer in self._peers.values():
            wanted = peer.wanted_data_events(
                may_read=may_read or not peer.paced, may_write=may_write or not peer.paced
            )
            peer.data_interest = self._watch(peer.data.fileno(), peer.data_interest, wanted)
            wanted = None
            if not peer.gone:
                self._flush(peer)
                wanted = select.EPOLLIN | (select.EPOLLOUT if peer.control.has_output() else 0)
            peer.control_interest = self._watch(peer.control.sock.fileno(), peer.control_interest, wanted)

    def _watch(self, fd: int, watched: int | None, wanted: int | None) -> int | None:
        """Change what epoll waits for on `fd`; answers `wanted`."""
        if wanted is None:
            if watched is not None:
                self._epoll.unregister(fd)
        elif watched is None:
            self._epoll.register(fd, wanted)
        elif watched != wanted:
            self._epoll.modify(fd, wanted)
        return wanted

    def _serve(self, events: list[tuple[int, int]]) -> None:
        writable: list[tuple[int, int, Peer]] = []
        readable: list[Peer] = []
        for fd, event in events:
            if fd == self._wake_fd:
                os.eventfd_read(self._wake_fd)
                continue
            peer, is_data = self._by_fd[fd]
            if not is_data:
                if event & _READ:
                    self._read_control(peer)
                continue
            if event & _READ:
                readable.append(peer)
            if event & select.EPOLLOUT and (urgency := peer.outbox.urgency()) is not None:
                writable.append((urgency, peer.served, peer))
        writable.sort(key=lambda entry: entry[:2])
        for _, _, peer in writable:
            self._write(peer)
        readable.sort(key=lambda peer: (peer.inbox.urgency(), peer.read))
        for peer in readable:
            self._read(peer)

    def _write(self, peer: Peer) -> None:
        """One chunk of the most urgent message for `peer`."""
        self._turn_number += 1
        try:
            if not peer.paced or self._egress is None:
                peer.outbox.write(TURN_BYTES)
            elif time.monotonic_ns() >= self._egress_at_ns:
                allowed = min(peer.outbox.next_bytes(), self._egress.chunk_bytes)
                self._egress_at_ns = self._egress.acquire(allowed)
                if not self._egress_at_ns:
                    self._egress.refund(allowed - peer.outbox.write(allowed))
            peer.served = self._turn_number
        except OSError as error:
            reason = f"its data connection broke while sending ({error})"
            peer.end_data(time.monotonic_ns(), reason, broken=True)

    def _read(self, peer: Peer) -> None:
        """One chunk from `peer`."""
        self._turn_number += 1
        inbox = peer.inbox
        amid = self._senders() > 0
        try:
            if not peer.paced or self._ingress is None:
                count = inbox.read(TURN_BYTES)
            else:
                allowed = inbox.next_bytes(self._ingress.chunk_bytes)
                self._ingress_at_ns = self._ingress.acquire(allowed)
                if self._ingress_at_ns:
                    return
                peer.read = self._turn_number
                count = inbox.read(allowed)
                self._ingress.refund(allowed - (count or 0))
        except OSError as error:
            peer.end_data(time.monotonic_ns(), f"its data connection broke ({error})", broken=True)
            return
        if count is None:
            peer.end_data(time.monotonic_ns(), "its data connection ended", broken=False)
        elif count:
            peer.heard_ns = time.monotonic_ns()
            self._window.arrived(count, peer.heard_ns, amid=amid)
            self._grant(peer)

    def _senders(self) -> int:
        """How many peers are in the middle of a message to us."""
        return sum(peer.inbox.in_message() for peer in self._peers.values())

    def _grant(self, peer: Peer) -> None:
        count = peer.inbox.credit.take_grant(self._window.share(self._senders()))
        if count and not peer.gone:
            peer.control.put(Frame(Control.CREDIT, count))
            self._flush(peer)

    def _return_credit(self) -> None:
        """Account for what the consumers finished."""
        touched = set()
        while self._handled:
            index, cost = self._handled.popleft()
            self._peers[index].inbox.credit.handled += cost
            touched.add(index)
        for index in touched:
            self._grant(self._peers[index])
        self._credit_withheld = any(peer.inbox.credit.withheld() for peer in self._peers.values())

    def _flush(self, peer: Peer) -> None:
        try:
            count = peer.control.flush()
        except OSError:
            return  # reading it will tell what happened, with what it still had to say
        if count:
            self._counters.sent(peer.index, -1, 0, count)

    def _read_control(self, peer: Peer) -> None:
        try:
            count = peer.control.receive()
            reason = "its connections closed without a goodbye: it was killed or crashed"
        except OSError as error:
            count, reason = None, f"its control connection broke ({error})"
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
                self._flush(peer)
            case Control.PONG:
                if self._pongs is not None:
                    self._pongs(peer.index, frame.a, frame.b, self._clock.now_ns())
            case Control.GOODBYE:
                peer.left = True
            case Control.FAREWELL:
                peer.confirmed = True
            case Control.ABORT:
                raise self._aborted_by(peer, frame)
            case Control.HEARTBEAT:
                pass

    def _aborted_by(self, peer: Peer, frame: Frame) -> PeerLost:
        culprit = self._peers.get(frame.a)
        if culprit is None:
            return peer.lost(f"it gave up on this party: {frame.text}")
        if culprit is peer:
            return peer.lost(f"it gave up: {frame.text}")
        return culprit.lost(f"{frame.text} (reported by {peer.name})")

    def _forgive_silence(self, now_ns: int) -> None:
        for peer in self._peers.values():
            if peer.heard_ns is not None:
                peer.heard_ns = now_ns

    def _check_signs_of_life(self, now_ns: int) -> None:
        for peer in self._peers.values():
            if peer.left or peer.gone:
                continue
            if peer.heard_ns is not None and now_ns - peer.heard_ns > self._silence_ns:
                raise peer.lost(f"no sign of life for {(now_ns - peer.heard_ns) / 1e9:.1f} s")
            if peer.data_ended_ns is not None and now_ns - peer.data_ended_ns > _DATA_END_GRACE_NS:
                raise peer.lost(peer.data_end_reason)

    def _hang_up(self) -> None:
        for peer in self._peers.values():
            if not peer.gone:
                if self._abort is not None:
                    peer.control.put(self._abort)
                self._flush(peer)
            peer.data.close()
            peer.control.sock.close()
        self._epoll.close()
        with self._wake_lock:
            os.close(self._wake_fd)
            self._wake_fd = -1
