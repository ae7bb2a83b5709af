"""A server shard: it carries out what the homes of its units say (`protocol/home.py`), with tensors.

Sums are in the parameters' own precision, in the order of arrival; in rank order where `deterministic`, so that
they repeat bitwise. Memory: one copy of its parameters and optimizer state (update on the server; one more where
answers are differences), or of the last sums (update on the workers), one accumulator per unit, used again every step,
and n gradients per unit where sums wait for rank order or for a later update.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from engine.checkpoint.part import parted
from engine.checkpoint.shard_cuts import ShardCuts
from engine.consistency.policy import Policy
from engine.exchange.room import Room, load_states, present, rooms_of, states_of
from engine.instrumentation.writes import unequal
from engine.protocol.errors import OutOfStepError
from engine.protocol.instructions import Add, Content, Drop, Instruction, Keep, Send, Update
from engine.protocol.messages import Lane, Message, Payload
from engine.state.choice import Choice
from engine.state.host_memory import has, places, union
from engine.state.recording import Recording
from engine.state.update_record import UpdateRecord
from engine.state.updates import Hyper, PieceUpdater, at_rate
from engine.telemetry.events import Kind
from engine.tensor_bytes import as_bytes, as_tensor, kept
from engine.transport.endpoint import Endpoint
from engine.transport.message import Header


class Shard:
    """Server shard `index`, living in the process that owns `endpoint`."""

    kinds = (
        Message.PUSH,
        Message.PULL,
        Message.FINISH,
        Message.ASSIGN,
        Message.JOIN,
        Message.LOST,
        Message.RETURNED,
        Message.CAPTURE,
        Message.PAUSED,
    )

    def __init__(
        self,
        *,
        index: int,
        workers: int,
        choices: Mapping[int, Choice],
        policy: Callable[[], Policy],
        make_updater: Callable[[Choice, list[Tensor]], PieceUpdater],
        hyper: Callable[[int], Hyper],
        initial: Mapping[str, Tensor],
        endpoint: Endpoint,
        recording: Recording,
        deterministic: bool,
        deadline_s: float,
        record: UpdateRecord | None,
        lost: Callable[[int, int, int, str], None],
        cuts: ShardCuts | None = None,
        going_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`choices`: the units of this shard. `policy()` makes one for a unit. `hyper(step)`: the optimizer's values of
        a step. `initial`: worker 0's initial parameters by name. `record`: what each update consists of, where workers
        drift. `lost(rank, incarnation, steps, reason)` is told of a worker that was lost after it had contributed so
        many steps. `cuts`: where what this shard has is saved between steps. `going_s()`: when it was last heard that a
        worker goes on which sends nothing meanwhile, on the monotonic clock."""
        self.index = index
        self._workers = workers
        self._policy = policy
        self._hyper = hyper
        self._endpoint = endpoint
        self._recording = recording
        self._deterministic = deterministic
        self._deadline_s = deadline_s
        self._record, self._lost, self._cuts, self._going_s = record, lost, cuts, going_s
        self._incarnation = dict.fromkeys(range(workers), 0)
        """By rank: of whom messages are. Nothing comes of a lost one after the word that it has returned."""
        self._first = dict.fromkeys(range(workers), 0)
        """By rank: the step from which on it contributes. Not of who was lost, and has not joined again."""
        self._earlier: dict[int, list[tuple[int, int]]] = defaultdict(list)
        """By rank: the steps (first, end) that it contributed before it was lost."""
        self._rooms = {
            choice.unit.index: rooms_of(
                choice,
                initial,
                make_updater,
                shard=index,
                workers=workers,
                policy=policy,
                rank_order=deterministic,
            )
            for choice in choices.values()
        }
        """By unit: one for each of its phases. All but pushes are for the last one."""

    def close(self) -> None:
        """Nobody contributes any more."""
        if self._record is not None:
            self._record.close()
        if self._cuts is not None:
            self._cuts.close()

    def load(self, state: Mapping[str, Tensor], step: int) -> None:
        """Go on with `step` from what `cuts` has saved of the same shard, before any message has come."""
        units = parted(state)
        for index, rooms in self._rooms.items():
            load_states(rooms, units.get(str(index), {}), step)

    def place(self, header: Header) -> None:
        """Gradients arrive in scratch buffers: they are added at once."""

    def handle(self, header: Header, payload: Payload) -> None:
        """One message of a worker. Called by the server lane, one at a time, most urgent first. Raises RuntimeError for
        what is out of step."""
        if header.kind == Message.LOST:
            self._on_lost(header)
            return
        if header.kind == Message.RETURNED:
            self._on_returned(header)
            return
        if header.kind in (Message.CAPTURE, Message.PAUSED):
            self._look_for_cut(header)
            return
        rooms = self._rooms[header.unit]
        room = rooms[header.part] if header.kind == Message.PUSH and len(rooms) > 1 else rooms[-1]
        if header.kind == Message.ASSIGN:
            self._on_assign(room, header, payload)
            return
        incarnation = self._incarnation[header.origin]
        if header.kind == Message.PULL:
            self._waits_from_now(room)  # of a unit with phases it comes ahead of the last one's contribution
            found = room.home.pulled(header.origin, header.step + 1, incarnation)
        elif header.kind == Message.FINISH:
            found = room.home.finished(header.origin, header.step + 1, incarnation)
        elif header.kind == Message.JOIN:
            self._first[header.origin] = header.step
            self._waits_from_now(room)
            room.joined.add(header.origin)
            found = room.home.joined(header.origin, header.step, incarnation)
        else:
            self._waits_from_now(room)
            if self._cuts is not None:
                self._cuts.reached(header.unit, header.step, lambda: states_of(rooms))
            try:
                found = room.home.pushed(header.origin, header.step, header.version, incarnation)
            except OutOfStepError as error:
                raise RuntimeError(str(error)) from error
        for instruction in found:
            self._carry_out(room, instruction, header, payload)
        if header.kind == Message.PUSH:
            self._look_for_cut(None)

    def _look_for_cut(self, told: Header | None) -> None:
        """Capture at worker 0's word, or what drifting workers had contributed when they paused, once it is here."""
        if self._cuts is None:
            return
        if told is not None and told.kind == Message.CAPTURE:
            self._capture(told.step, (told.origin,))
        elif told is not None:
            self._cuts.paused(told.origin, told.step, told.part)
        clocks = (room.home.clocks.contributed for room in self._every_room())
        if (cut := self._cuts.complete(self._workers, clocks)) is not None:
            self._capture(cut, range(self._workers))

    def _capture(self, cut: int, peers: Iterable[int]) -> None:
        """Nobody contributes anything before it hears of this."""
        assert self._cuts is not None
        for index, rooms in self._rooms.items():
            self._cuts.at(index, cut, partial(states_of, rooms))
        for peer in peers:
            self._endpoint.send(peer, Header(Message.CAPTURED, self._endpoint.index, Lane.WORKER, cut))

    def _waits_from_now(self, room: Room) -> None:
        """Where workers drift, from the last contribution: it is no reason to end that one of them is far behind."""
        if not (room.home.lockstep and room.home.waits):
            room.first_arrival_s = time.monotonic()

    def overdue(self) -> str | None:
        """Who is missing where a unit has waited for longer than the deadline, or None."""
        now = time.monotonic()
        for room in self._every_room():
            if room.home.waits and now - max(room.first_arrival_s, self._going_s()) > self._deadline_s:
                names = ", ".join(f"worker {rank}" for rank in room.home.missing())
                what = f"gradients of {room.choice.unit.layers[0]} (step {room.home.behind})"
                return f"{what} did not arrive within {self._deadline_s:.0f} s from {names}"
        return None

    def _carry_out(self, room: Room, instruction: Instruction, header: Header, payload: Payload) -> None:
        match instruction:
            case Add():
                self._add(room, instruction, header, payload)
            case Send():
                self._send(room, instruction)
            case Update():
                self._update(room, instruction)
            case Keep(_, origin, step):
                room.kept[origin, step] = None if payload is None else kept(payload), header.meta
            case Drop(_, origin, step, reason, was_kept):
                if was_kept:
                    del room.kept[origin, step]
                self._recording.dropped(room.choice, step, origin, reason)
            case _:
                raise AssertionError(instruction)

    def _on_lost(self, header: Header) -> None:
        """Go on without a worker. Raises UserError where too few are left."""
        rank, steps = header.part, self._steps_of(header.part)
        if rank in self._first:
            self._earlier[rank].append((self._first.pop(rank), steps))
        self._lost(rank, self._incarnation[rank], steps, header.meta.decode())
        self._say_what_is_missing(rank, steps)
        for room in self._every_room():
            found = room.home.lost(rank)
            room.home.check_enough_are_left(rank)
            for instruction in found:
                self._carry_out(room, instruction, header, None)

    def _say_what_is_missing(self, rank: int, steps: int) -> None:
        """Of a worker that was lost within a push: a part of its step has come, and the rest never will."""
        missing = {
            (room.choice.unit.layers[0], step): room.choice
            for room in self._every_room()
            for step in range(room.home.clocks.contributed.get(rank, steps), steps)
        }
        for (_, step), choice in missing.items():
            reason = f"it had not come, or not whole, when worker {rank} was lost"
            self._recording.dropped(choice, step, rank, reason)

    def contributed(self) -> dict[int, list[tuple[int, int]]]:
        """By rank: the steps (first, end) that it has contributed, to any unit, in each of its incarnations."""
        now = {rank: [(first, self._steps_of(rank))] for rank, first in self._first.items()}
        return {rank: self._earlier[rank] + now.get(rank, []) for rank in range(self._workers)}

    def _steps_of(self, rank: int) -> int:
        homes = (room.home for room in self._every_room())
        return max((home.clocks.contributed.get(rank, 0) for home in homes), default=0)

    def _on_returned(self, header: Header) -> None:
        """Tell a worker that was lost from which step on it may contribute, after all that was for who was lost."""
        rank, self._incarnation[header.part] = header.part, header.step
        homes = [room.home for room in self._every_room()]
        clock = max((home.returned(rank, header.step) for home in homes), default=1)
        welcome = Header(
            kind=Message.WELCOME,
            lane=Lane.WORKER,
            origin=self._endpoint.index,
            step=clock,
            part=int(any(home.over for home in homes)),
            priority=header.priority,
        )
        self._endpoint.send(rank, welcome)

    def _on_assign(self, room: Room, header: Header, payload: Payload) -> None:
        """A worker's model has written to the parameters. It says so ahead of its gradient."""
        room.assigned[header.origin] = header.meta
        if header.origin == 0:
            received = as_tensor(payload, room.dtype).clone()
            room.values = list(received.split([s.count for s in room.choice.unit.segments]))

    def _assign(self, room: Room) -> None:
        """Let what all workers have written be what is updated. Raises TrainingError where they wrote differently."""
        if not room.assigned:
            return
        for rank in range(self._workers):
            if room.assigned.get(rank) != room.assigned.get(0):
                raise unequal(room.choice.unit.layers[0], rank)
        with torch.no_grad():
            for part, value in zip(room.answer, room.values, strict=True):
                part.copy_(value)
        if room.differences:
            room.differences[0].assign(room.values)
        room.assigned, room.values = {}, []

    def _every_room(self) -> list[Room]:
        return [room for rooms in list(self._rooms.values()) for room in rooms]

    def _add(self, room: Room, add: Add, header: Header, payload: Payload) -> None:
        """Add a contribution to the sums; the first one overwrites what an older step left there."""
        start_ns = self._recording.now_ns()
        if add.kept:
            received, mask = room.kept.pop((add.origin, add.step))
        else:
            received, mask = payload, header.meta
        if add.first:
            room.sums = room.spare or [torch.empty(count, dtype=room.dtype) for count in room.counts]
            room.spare, room.mask = [], None
        if received is not None:
            self._sum(room, received, mask)
        self._recording.reduced(room.choice, add.step, add.origin, start_ns)

    def _sum(self, room: Room, received: memoryview, mask: bytes) -> None:
        if room.choice.unit.phases:  # whole, whatever a worker has no gradient of
            put = room.codec.decode if room.mask is None else room.codec.decode_add
            put(received, room.sums)
            room.mask = mask if room.mask is None else union(room.mask, mask)
            return
        if room.mask is None:
            room.codec.decode(received, present(room.sums, mask))
            room.mask = mask
            return
        if mask != room.mask:
            for index, part in enumerate(room.sums):
                if has(mask, index) and not has(room.mask, index):
                    part.zero_()
            room.mask = union(room.mask, mask)
        room.codec.decode_add(received, present(room.sums, mask))

    def _update(self, room: Room, update: Update) -> None:
        """All contributions are there."""
        choice, mask = room.choice, room.mask
        if mask is None:  # no worker had a gradient of it
            mask = bytes(-(-len(choice.unit.segments) // 8))
        if room.updater is not None:
            self._assign(room)
            start_ns = self._recording.now_ns()
            room.updater.update(
                [s if has(mask, i) else None for i, s in enumerate(room.sums)],
                at_rate(self._hyper(update.step), update.rate),
            )
            self._recording.updated(choice, update.step, start_ns)
            room.spare = room.sums
            if room.differences:
                room.views = []
        else:
            room.spare, room.answer, room.views = room.answer, room.sums, []
        if update.parts:
            self._recording.applied_late(choice, update.parts)
            if self._record is not None:
                self._record.add(update)
        room.sums, room.answer_mask = [], mask

    def _send(self, room: Room, send: Send) -> None:
        """Notify workers, or send them what they wait for: the parameters, what these have moved by, or the sum of the
        step. It is encoded once for all, but for who hold different parameters."""
        if send.content is Content.NOTHING:
            self._hand_out(room, send, (), b"")
        elif send.snapshot and room.differences:
            for rank in send.peers:
                payload, whole = self._encoded_for(room, rank, send.step)
                self._hand_out(room, send._replace(peers=(rank,)), payload, room.answer_mask, whole=whole)
        else:
            self._hand_out(room, send, self._encoded(room, send), room.answer_mask)

    def _hand_out(
        self, room: Room, send: Send, payload: Sequence[memoryview], mask: bytes, *, whole: bool = False
    ) -> None:
        header = room.choice.header(
            send.kind,
            send.step,
            origin=self._endpoint.index,
            lane=Lane.WORKER,
            queued_ns=self._recording.now_ns(),
            payload=payload,
            part=send.part or int(whole),
            version=send.version,
            meta=mask,
        )
        for rank in send.peers:
            self._endpoint.send(rank, header, payload)

    def _encoded(self, room: Room, send: Send) -> list[memoryview]:
        if room.updater is not None and send.snapshot:
            return [as_bytes(part.clone()) for part in room.answer]
        if not room.views:
            room.views = [as_bytes(part) for part in self._answer(room, send.step)]
        return room.views

    def _encoded_for(self, room: Room, rank: int, step: int) -> tuple[list[memoryview], bool]:
        """(what travels to one worker, whether it is the parameters as they are): these are for who has joined again,
        and in the end for everybody, so that all hold the same."""
        if room.home.over or rank in room.joined:
            room.joined.discard(rank)
            room.differences[rank].assign(room.answer)
            return [as_bytes(part.clone()) for part in room.answer], True
        with self._recording.coding(Kind.ENCODE, room.choice, step):
            return [as_bytes(part) for part in room.differences[rank].encode(room.answer)], False

    def _answer(self, room: Room, step: int) -> list[Tensor]:
        """What travels to all workers after an update."""
        choice, mask = room.choice, room.answer_mask
        if room.differences:
            with self._recording.coding(Kind.ENCODE, choice, step):
                return room.differences[0].encode(room.answer)
        if room.updater is not None:
            return room.answer
        if choice.unit.phases:
            return room.answer
        with self._recording.encoding(choice, step):
            return room.codec.encode(present(room.answer, mask), places(choice.unit, mask))
