"""The one I/O thread of a process: waits in epoll, moves bytes, serves the control connections."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from engine.transport.control import Control, Frame
from engine.transport.dialogue import Dialogue, LostCallback, PingAnswered
from engine.transport.lane import LaneQueue, work
from engine.transport.message import Outgoing
from engine.transport.pacing import PacedLink
from engine.transport.peer import Peer
from engine.transport.waker import Waker

MakePeer = Callable[[int, socket.socket, socket.socket], Peer]
TURN_BYTES = 1 << 20
_COARSE_NS = 20_000_000
_READ = select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR


class Loop:
    """Runs until it is stopped or something fails; all peers are told why before the connections close."""

    def __init__(
        self,
        dialogue: Dialogue,
        *,
        egress: PacedLink | None,
        ingress: PacedLink | None,
        heartbeat_s: float,
        failed: Callable[[BaseException], None],
        lanes: Sequence[LaneQueue],
        make_peer: MakePeer,
        name: str,
    ) -> None:
        """`make_peer(number, data, control)`: another one, for a party that was lost and is there again."""
        self.parted = threading.Event()
        """Set when an orderly end has been completed with every peer."""
        self._dialogue = dialogue
        self._peers = dialogue.peers
        self._egress = egress
        self._ingress = ingress
        self._egress_at_ns = 0
        self._ingress_at_ns = 0
        self._heartbeat_ns = round(heartbeat_s * 1e9)
        self._failed = failed
        self._lanes = lanes
        self._make_peer = make_peer
        self._commands: deque[Callable[[], None]] = deque()
        self._woken = False
        self._again = False
        """The I/O thread itself, in a handler, has left something to look at."""
        self._closing = False
        self._stopping = False
        self._abort: Frame | None = None
        self._turn_number = 0
        self._epoll = select.epoll()
        self._waker = Waker()
        self._wake_fd = self._waker.fileno()
        self._epoll.register(self._wake_fd, select.EPOLLIN)
        self._by_fd: dict[int, tuple[Peer, bool]] = {}
        for peer in self._peers.values():
            self._know(peer)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    # Called from any thread.

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, peer: int, message: Outgoing, *, hurry: bool) -> None:
        """Queue a message for `peer`; without `hurry` the thread is not woken for it."""
        if self._peers[peer].outbox.put(message) and hurry:
            self.wake()

    def nudge(self) -> None:
        """Make the thread look at what did not hurry."""
        self.wake()

    def wake(self) -> None:
        """Make the thread look around, if it sleeps."""
        if threading.get_ident() == self._thread.ident:
            self._again = True
            return
        if self._woken:
            return
        self._woken = True
        self._waker.wake()

    def handled(self, peer: Peer, cost_bytes: int) -> None:
        """A consumer finished a message from `peer`."""
        self._dialogue.handled(peer, cost_bytes)
        if self._dialogue.credit_withheld():
            self.wake()

    def ping(self, peer: int, answered: PingAnswered) -> None:
        """Ping `peer`; `answered` is called in the I/O thread."""
        self._commands.append(lambda: self._dialogue.ping(peer, answered))
        self.wake()

    def may_lose(self, expendable: frozenset[int], lost: LostCallback) -> None:
        """From now on the loss of one of these is told to `lost`, in the I/O thread, and fails nothing."""
        self._dialogue.may_lose(expendable, lost)

    def is_gone(self, peer: int) -> bool:
        """Whether `peer` was lost, or has left."""
        return self._peers[peer].gone

    def regain(
        self, peer: int, data: socket.socket, control: socket.socket, told: Callable[[], None]
    ) -> None:
        """`peer`, which was lost, is there again, on these connections; `told` is called in the I/O thread, before
        anything of it is read."""
        self._commands.append(lambda: self._regain(peer, data, control, told))
        self.wake()

    def part(self) -> None:
        """Begin an orderly end; `parted` is set when it is complete."""
        self._commands.append(self._close)
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
        next_beat_ns = time.monotonic_ns()
        for peer in self._peers.values():
            self._dialogue.grant(peer, senders=1)
        while True:
            self._woken = False  # before looking at what a waker may have left
            now_ns = time.monotonic_ns()
            self._dialogue.awake(now_ns)
            if now_ns >= next_beat_ns:
                next_beat_ns = now_ns + self._heartbeat_ns
                self._dialogue.beat(now_ns)
            while self._commands:
                self._commands.popleft()()
            more = work(self._lanes)
            self._again = False  # what handlers have queued is looked at now
            more |= self._send_out()
            self._dialogue.return_credit()
            self._settle(now_ns)
            if self._closing and not self.missing():
                self.parted.set()
            if self._stopping:
                return
            until_ns = 0 if more or self._again else min(next_beat_ns, self._paced_at(now_ns, next_beat_ns))
            self._serve(self._wait(until_ns))

    def _know(self, peer: Peer) -> None:
        self._by_fd[peer.data.fileno()] = (peer, True)
        self._by_fd[peer.control.sock.fileno()] = (peer, False)

    def _regain(
        self, index: int, data: socket.socket, control: socket.socket, told: Callable[[], None]
    ) -> None:
        """Nothing of who was lost is left to who comes in its place: what waited for it was dropped, and what is still
        handled of it gives credit to nobody."""
        old = self._peers[index]
        if self._closing or not old.gone:
            for sock in (data, control):  # it calls again, or finds that all is over
                sock.close()
            return
        for sock, watched in (
            (old.data, old.data_interest),
            (old.control.sock, old.control_interest),
        ):
            self._watch(sock.fileno(), watched, None)
            del self._by_fd[sock.fileno()]
            sock.close()
        peer = self._peers[index] = self._make_peer(index, data, control)
        self._know(peer)
        self._dialogue.grant(peer, senders=1)
        told()

    def _close(self) -> None:
        self._closing = True
        for peer in self._peers.values():
            peer.changed = True

    def _send_out(self) -> bool:
        """Give the kernel what waits, the most urgent first; answers whether it would take more. Paced paths are
        served when their time has come."""
        ready = [p for p in self._peers.values() if not (p.paced or p.full) and p.wants_to_write()]
        if len(ready) > 1:
            ready.sort(key=lambda peer: (peer.outbox.urgency() or 0, peer.served))
        for peer in ready:
            self._write(peer)
        return any(not peer.full and peer.wants_to_write() for peer in ready)

    def _wait(self, until_ns: int) -> list[tuple[int, int]]:
        """Block until something happens or the time comes."""
        if self._dialogue.owes_credit():
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

    def _settle(self, now_ns: int) -> None:
        """Say what is due to be said, and tell epoll what each connection waits for."""
        may_read, may_write = now_ns >= self._ingress_at_ns, now_ns >= self._egress_at_ns
        for peer in self._peers.values():
            if not peer.unsettled():
                continue
            peer.changed = False
            peer.parting(self._closing)
            wanted = peer.wanted_data_events(
                may_read=may_read or not peer.paced, may_write=may_write or not peer.paced
            )
            peer.data_interest = self._watch(peer.data.fileno(), peer.data_interest, wanted)
            wanted = None
            if not peer.gone:
                self._dialogue.flush(peer)
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
                self._waker.clear()
                continue
            peer, is_data = self._by_fd[fd]
            peer.changed = True
            if not is_data:
                if event & _READ:
                    self._dialogue.read(peer)
                continue
            if event & _READ:
                readable.append(peer)
            if event & select.EPOLLOUT:
                peer.full = False
                if peer.paced and (urgency := peer.outbox.urgency()) is not None:
                    writable.append((urgency, peer.served, peer))
        writable.sort(key=lambda entry: entry[:2])
        for _, _, peer in writable:
            self._write(peer)
        readable.sort(key=lambda peer: (peer.inbox.urgency(), peer.read))
        for peer in readable:
            if not peer.data_broken:  # it may have been lost a moment ago
                self._read(peer)

    def _write(self, peer: Peer) -> None:
        """What the kernel takes for `peer`; on a paced path one chunk of the most urgent message."""
        self._turn_number += 1
        peer.changed = True
        try:
            if not peer.paced or self._egress is None:
                peer.full = peer.outbox.write_on(TURN_BYTES)
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
        """What the kernel has from `peer`; on a paced path one chunk."""
        self._turn_number += 1
        inbox = peer.inbox
        amid = self._dialogue.senders() > 0
        count: int | None
        try:
            if not peer.paced or self._ingress is None:
                count = inbox.read_on(TURN_BYTES)
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
            peer.heard_ns = peer.data_heard_ns = time.monotonic_ns()
            self._dialogue.window.passed(count, peer.heard_ns, amid=amid)
            senders = self._dialogue.senders(peer)
            self._dialogue.grant(peer, senders)
            if not peer.paced:
                inbox.wake_after(self._dialogue.window.share(senders))

    def _hang_up(self) -> None:
        for peer in self._peers.values():
            if not peer.gone:
                if self._abort is not None:
                    peer.control.put(self._abort)
                self._dialogue.flush(peer)
            peer.data.close()
            peer.control.sock.close()
        self._epoll.close()
        self._waker.close()
