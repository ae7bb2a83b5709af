"""One process's end of the job's network: send, receive in order, and know when a peer is lost."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from engine.transport import mesh, plane
from engine.transport.buffers import ScratchPool
from engine.transport.clock import Alignment, AttemptClock
from engine.transport.counters import Counters
from engine.transport.credit import ReceiverCredit, Window
from engine.transport.dialogue import LostCallback
from engine.transport.door import KeptDoor
from engine.transport.errors import DeadlineMissed, PeerLost, ProtocolError
from engine.transport.greeting import Call
from engine.transport.lane import Allow, Delivery, Handle, LaneQueue, Placing, Weigh
from engine.transport.loop import Loop
from engine.transport.message import Buffer, Header, Outgoing
from engine.transport.observer import NoObserver, Observer, Watch
from engine.transport.pacing import Pacer
from engine.transport.plane import DataPlane, DataPlaneChoice

FailureCallback = Callable[[BaseException], None]
LEAST_TOKEN_BYTES = 16


class Sender(Protocol):
    """What is needed to send: an endpoint, or one that calls some of the parties by other numbers."""

    @property
    def index(self) -> int:
        """The own number."""
        ...

    def send(
        self,
        peer: int,
        header: Header,
        payload: Sequence[Buffer] = (),
        on_sent: Callable[[], None] | None = None,
        *,
        hurry: bool = True,
    ) -> None:
        """See Endpoint.send."""
        ...

    def nudge(self) -> None:
        """See Endpoint.nudge."""
        ...


class Endpoint:
    """One party of the job. Use: `listen`, exchange addresses, `register` lanes, `connect`, `send`, `close`.

    A message goes to a lane of its destination and is handled there, one at a time, in strict
    (priority, sequence) order of what has arrived. The first thing that goes wrong is the endpoint's
    `failure`; it is told to every peer, and from then on `send` raises it.
    """

    def __init__(
        self,
        *,
        index: int,
        names: Sequence[str],
        hosts: Sequence[str],
        clock: AttemptClock | None = None,
        observer: Observer | None = None,
        pacer: Pacer | None = None,
        credit_bytes: int | None = None,
        backlog_bytes: int = 8 * 2**20,
        unsent_bytes: int = 64 * 1024,
        send_buffer_bytes: int = 2**20,
        deadline_s: float = 60.0,
        heartbeat_s: float = 1.0,
        silence_s: float = 15.0,
        token: bytes,
        data_plane: DataPlaneChoice | None = None,
    ) -> None:
        """`names` and `hosts` list all parties in order; `index` is this one.

        credit_bytes: what may be on its way to this party beyond one message per sender; senders that meet
            share it. None: what arrives in a millisecond, as measured (`credit.Window`).
        backlog_bytes: what may wait unhandled per sender before it is held back; 0: credit returns only
            when a message has been handled.
        unsent_bytes, send_buffer_bytes: TCP_NOTSENT_LOWAT and SO_SNDBUF of the data connections.
        deadline_s: for connecting, aligning clocks and closing. silence_s: a peer that gives no sign of life
            for so long is lost; every party gives one each heartbeat_s.
        token: at least 16 random bytes that only this attempt's parties know. Who cannot prove that it knows them
            (`greeting`) is turned away.
        data_plane: who moves the bytes: a thread in "python", or in C ("c"), which must have been
            built; "auto" takes that where it has been. Parties need not choose the same. None: what the environment
            variable TRAINYARD_DATA_PLANE says, else "auto".
        """
        if len(names) != len(hosts) or not 0 <= index < len(names):
            raise ValueError(f"index = {index}, {len(names)} names, {len(hosts)} hosts: one each per party")
        if silence_s < 3 * heartbeat_s:
            raise ValueError(f"silence_s = {silence_s}: at least three heartbeats of {heartbeat_s} s")
        if len(token) < LEAST_TOKEN_BYTES:
            raise ValueError(f"token has {len(token)} bytes: give at least {LEAST_TOKEN_BYTES} random ones")
        self.index = index
        self.names = tuple(names)
        self.hosts = tuple(hosts)
        self.clock = clock or AttemptClock()
        self.counters = Counters()
        self.failure: BaseException | None = None
        self._observer = observer or NoObserver()
        self._pacer = pacer
        Window(credit_bytes), ReceiverCredit(backlog_bytes)  # refuse what has no meaning
        self._credit_bytes = credit_bytes
        self._backlog_bytes = backlog_bytes
        self._unsent_bytes = unsent_bytes
        self._send_buffer_bytes = send_buffer_bytes
        self._deadline_s = deadline_s
        self._heartbeat_s = heartbeat_s
        self._silence_s = silence_s
        self._token = token
        self._pool = ScratchPool()
        self._lanes: dict[int, LaneQueue] = {}
        self._peers: dict[int, str] = {}
        """Names of those it is connected with, by number."""
        self.data_plane = plane.chosen(data_plane)
        """Who moves the bytes."""
        self._listener: socket.socket | None = None
        self._loop: DataPlane | None = None
        self._door: KeptDoor | None = None
        self._closed = False
        self._unhurried = False
        """Something may be queued that nobody has woken the I/O thread for."""
        self._failure_lock = threading.Lock()
        self._callbacks: list[FailureCallback] = []

    @property
    def name(self) -> str:
        """This party's name."""
        return self.names[self.index]

    def listen(self, bind: str = "127.0.0.1", port: int = 0) -> mesh.Address:
        """Open the port that peers call; answers (host, port) as bound. `port` 0: any free one."""
        self._listener = mesh.listen(bind, port)
        return self.address

    @property
    def address(self) -> mesh.Address:
        """Where this party listens."""
        if self._listener is None:
            raise ProtocolError("listen() first: this endpoint has no address yet")
        host, port = self._listener.getsockname()[:2]
        return str(host), int(port)

    def register(
        self,
        lane: int,
        *,
        place: Placing,
        handle: Handle,
        weigh: Weigh | None = None,
        allow: Allow | None = None,
    ) -> None:
        """Declare a receive queue; before `connect`.

        allow(header, meta_bytes): in the I/O thread, before memory is taken for a message from the wire; raises
            ProtocolError where it announces more bytes than it can have.
        place(header): in the I/O thread, for a message from the wire with a payload: writable contiguous
            views that it is received into, `header.payload_bytes` in total, or None for scratch memory.
        weigh(header): how many bytes the handler has to work on. Where given, light messages are handled in the
            I/O thread, so that the handler must not wait for anything.
        handle(header, payload): in the lane's or the I/O thread. `payload` is None for an empty payload and for
            one that was placed; otherwise all of it, valid until the handler returns. A local message's payload is
            the sender's own memory and is never placed. Handlers may send; what they raise ends the job.
        """
        if self._loop is not None or lane in self._lanes or not 0 <= lane <= 255:
            raise ProtocolError(f"lane {lane}: register each lane of 0..255 once, before connect()")
        title = f"{self.name} lane {lane}"
        self._lanes[lane] = LaneQueue(title, place, handle, self._pool, self._fail, weigh=weigh, allow=allow)

    def connect(self, addresses: Mapping[int, mesh.Address]) -> None:
        """Connect with every party in `addresses` (number -> host, port; the own one may be among them).

        Both sides must list each other. Raises DeadlineMissed with the names of those who did not come.
        """
        sockets: dict[int, tuple[socket.socket, socket.socket]] = {}
        if any(peer != self.index for peer in addresses):
            if self._listener is None:
                raise ProtocolError("listen() before connect()")
            sockets = mesh.connect_all(
                self._listener, self.index, self.names, addresses,
                token=self._token, deadline_s=self._deadline_s,
            )  # fmt: skip
        self._begin(sockets)

    def rejoin(
        self, addresses: Mapping[int, mesh.Address], incarnation: int, unwanted: Callable[[], bool]
    ) -> bool:
        """Connect with every party in `addresses` after this one was lost: they must have kept their doors open.
        `incarnation`: how often it has been started anew. False where `unwanted` says so before all have let it in."""
        sockets = mesh.call_all(
            self.index, incarnation, self.names, addresses,
            token=self._token, deadline_s=self._deadline_s, unwanted=unwanted,
        )  # fmt: skip
        if sockets is not None:
            self._begin(sockets)
        return sockets is not None

    def _begin(self, sockets: mesh.Sockets) -> None:
        for pair in sockets.values():
            mesh.tune(*pair, self._unsent_bytes, self._send_buffer_bytes)
        self._peers = {peer: self.names[peer] for peer in sorted(sockets)}
        self._loop = plane.make(
            self.data_plane, {peer: sockets[peer] for peer in self._peers}, self._wiring()
        )
        for lane in self._lanes.values():
            lane.start()
        self._loop.start()

    def _wiring(self) -> plane.Wiring:
        host, pacer = self.hosts[self.index], self._pacer
        elsewhere = frozenset(peer for peer in self._peers if self.hosts[peer] != host)
        return plane.Wiring(
            name=f"{self.name} I/O",
            names=self._peers,
            paced=elsewhere if pacer else frozenset(),
            egress=pacer.link(host, "egress") if pacer else None,
            ingress=pacer.link(host, "ingress") if pacer else None,
            lanes=self._lanes,
            pool=self._pool,
            watch=Watch(self.counters, self.clock, self._observer),
            failed=self._fail,
            credit_bytes=self._credit_bytes,
            backlog_bytes=self._backlog_bytes,
            heartbeat_s=self._heartbeat_s,
            silence_s=self._silence_s,
        )

    def send(
        self,
        peer: int,
        header: Header,
        payload: Sequence[Buffer] = (),
        on_sent: Callable[[], None] | None = None,
        *,
        hurry: bool = True,
    ) -> None:
        """Queue a message for `peer`; never blocks, never copies.

        The payload's memory must stay unchanged until `on_sent()` (called in the I/O thread once the kernel
        has it all; for a local message, in the lane's thread once it has been handled). Without `hurry` a sleeping
        I/O thread is not woken for it: it leaves with the next message that hurries, and at the latest after
        `nudge`, which whoever sends so owes it. Raises the endpoint's failure, if there is one, and ProtocolError
        where header and payload do not fit.
        """
        if self.failure is not None:
            raise self.failure
        if self._loop is None or self._closed:
            raise ProtocolError(f"{self.name} sends {header} while not connected")
        message = Outgoing(header, payload, on_sent)
        if not hurry:
            self._unhurried = True  # before it is queued: whoever hurries next wakes for both
        if peer == self.index:
            self._deliver_locally(message)
        elif peer in self._peers:
            self._loop.put(peer, message, hurry=hurry)
        else:
            known = ", ".join(self._peers.values())
            raise ProtocolError(f"{self.name} is not connected with party {peer}; only with: {known}")
        if hurry and self._unhurried:
            self.nudge()
        elif hurry and peer == self.index:
            self._loop.wake()

    def nudge(self) -> None:
        """Let leave what waits without hurry. Any thread."""
        self._unhurried = False
        if self._loop is not None:
            self._loop.nudge()

    def _deliver_locally(self, message: Outgoing) -> None:
        header = message.header
        lane = self._lanes.get(header.lane)
        if lane is None:
            raise ProtocolError(f"{header} is for lane {header.lane}; registered: {sorted(self._lanes)}")
        now_ns = self.clock.now_ns()
        self.counters.local(header.layer, header.payload_bytes)
        self._observer.sent(header, self.index, header.queued_ns, now_ns, now_ns, wire=False)
        self._observer.received(header, self.index, now_ns, now_ns, wire=False)
        views = message.views
        payload = views[0] if len(views) == 1 else None
        parts = views if len(views) > 1 else ()
        lane.put(Delivery(header, payload, None, message.on_sent, parts))

    def align_clock(self, samples: int = 16) -> Alignment:
        """Align the clock with party 0's by pings; before times matter. Party 0 itself is the reference."""
        if self.index == 0 or self._loop is None:
            return Alignment(offset_ns=0, residual_ns=0)
        if 0 not in self._peers:
            raise ProtocolError(f"{self.name} is not connected with {self.names[0]}, the clock's reference")
        answers: queue.SimpleQueue[tuple[int, int, int]] = queue.SimpleQueue()
        seen = []
        end = time.monotonic() + self._deadline_s
        for _ in range(samples):
            self._loop.ping(0, lambda sent, there, received: answers.put((sent, there, received)))
            try:
                seen.append(answers.get(timeout=max(end - time.monotonic(), 0)))
            except queue.Empty:
                if self.failure is not None:
                    raise self.failure from None
                waiting = f"{self.name} aligning its clock"
                raise DeadlineMissed(waiting, self._deadline_s, [self.names[0]]) from None
        return self.clock.align(seen)

    def on_failure(self, callback: FailureCallback) -> None:
        """Call `callback(error)` on failure (now, if it has failed), in the thread that saw it; it must not
        block."""
        with self._failure_lock:
            if self.failure is None:
                self._callbacks.append(callback)
                return
        callback(self.failure)

    def may_lose(self, peers: Collection[int], lost: LostCallback) -> None:
        """Go on without any of `peers` that is lost from now on: what is sent to it is dropped, closing does not wait
        for it, and `lost(number, reason)` is called, once for each, in the I/O thread; it must not block."""
        if self._loop is not None:
            self._loop.may_lose(frozenset(peers), lost)

    def keep_door(self, peers: Collection[int], returned: Callable[[int, int], None]) -> None:
        """Let any of `peers` in again that was lost (`may_lose`) and is started anew: what is sent to it from then on
        is sent to its new incarnation. `returned(number, incarnation)` is called in the I/O thread before anything of
        that is handled; it must not block. Raises ProtocolError where the data plane is the one in C."""
        loop, listener = self._loop, self._listener
        if listener is None or not isinstance(loop, Loop):
            raise ProtocolError("only the data plane in Python, once connected, knows parties that come back")

        def came(call: Call, data: socket.socket, control: socket.socket) -> None:
            mesh.tune(data, control, self._unsent_bytes, self._send_buffer_bytes)
            loop.regain(call.origin, data, control, lambda: returned(call.origin, call.incarnation))

        self._door = KeptDoor(listener, self.index, self._token, peers, gone=loop.is_gone, returned=came)

    def close(self, orderly: bool = True, reason: str = "") -> None:
        """End. Orderly: send what is queued, wait until every peer has read it, handle what arrived.

        Not orderly: drop everything and tell the peers that this party gave up, with `reason`. Raises
        DeadlineMissed, everything closed, where peers did not confirm in time. After a failure it only cleans
        up. May be called again.
        """
        if self._closed:
            return
        missing: list[str] = []
        loop = self._loop
        if self._door is not None:
            self._door.close()
        orderly = orderly and self.failure is None
        if loop is not None:
            if orderly:
                loop.part()
                end = time.monotonic() + self._deadline_s
                while not loop.parted.wait(0.1) and self.failure is None and time.monotonic() < end:
                    pass
                missing = [] if self.failure is not None else loop.missing()
                loop.stop()
            else:
                loop.abort(self.index, reason or "no reason given")
            if not loop.join(self._deadline_s):
                missing.append("its own I/O thread")
        self._closed = True
        drop = not orderly or self.failure is not None
        stuck = [f"lane {number}" for number, lane in self._lanes.items()
                 if loop is not None and not lane.stop(drop=drop, timeout_s=self._deadline_s)]  # fmt: skip
        if self._listener is not None:
            self._listener.close()
        if (missing or stuck) and orderly:
            raise DeadlineMissed(f"{self.name} closing", self._deadline_s, [*missing, *stuck])

    def _fail(self, error: BaseException) -> None:
        """The first failure wins: it is kept, told to the peers and to whoever asked."""
        with self._failure_lock:
            if self.failure is not None or self._closed:
                return
            self.failure = error
            callbacks = tuple(self._callbacks)
        culprit = error.index if isinstance(error, PeerLost) else self.index
        reason = error.reason if isinstance(error, PeerLost) else f"{type(error).__name__}: {error}"
        if self._loop is not None:
            self._loop.abort(culprit, reason)
            self._loop.parted.set()
        for callback in callbacks:
            callback(error)

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        with contextlib.suppress(DeadlineMissed) if error is not None else contextlib.nullcontext():
            self.close(orderly=error is None, reason=f"{type(error).__name__}: {error}" if error else "")
