"""A room: what a shard (`shard.py`) keeps of one unit, or of one of its phases, as tensors."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from engine.checkpoint.part import nested, parted, under
from engine.codec.base import UnitCodec
from engine.codec.difference import Difference
from engine.consistency.policy import Policy
from engine.plan.optimizers import SCALAR_STATE
from engine.plan.units import Segment, Unit
from engine.protocol.assembly import homes_of
from engine.protocol.home import Home
from engine.state.choice import Choice
from engine.state.host_memory import has
from engine.state.updates import PieceUpdater
from engine.tensor_bytes import as_bytes

_CODEC, _OPTIMIZER, _DIFFERENCE, _PARAMETERS = "codec", "optimizer", "difference", "parameters"
_HOME, _SUMS, _MASK, _KEPT = "home", "sums", "mask", "kept"


@dataclass(kw_only=True)
class Room:
    """One unit's tensors on its shard."""

    choice: Choice
    codec: UnitCodec
    home: Home
    updater: PieceUpdater | None
    """Of its parameters, one 1-D tensor per segment, where this shard updates them."""
    dtype: torch.dtype
    counts: list[int]
    """Elements of each tensor of its sums: one per segment, or the numbers of a phase."""
    kept: dict[tuple[int, int], tuple[memoryview | None, bytes]] = field(default_factory=dict)
    """By rank and step: contributions whose turn comes later, with the segments that they have; None: with none."""
    sums: list[Tensor] = field(default_factory=list)
    """The accumulator of the update that is next."""
    spare: list[Tensor] = field(default_factory=list)
    """Memory for the next accumulator. Where workers update, it is the answer before the last one: whoever pushes a
    step has the answer of the step before, so nothing of an older one is still on its way out."""
    mask: bytes | None = None
    """Segments present anywhere in the sum; None before its first contribution is in."""
    answer: list[Tensor] = field(default_factory=list)
    """What workers get: the parameters, or the last complete step's sums. Kept apart from `sums`: a fast worker
    may push the next step before a slow one has pulled this one's."""
    differences: dict[int, Difference] = field(default_factory=dict)
    """By rank: what the worker holds, where workers are told what the parameters have moved by; in lockstep one and the
    same for all."""
    joined: set[int] = field(default_factory=set)
    """Workers that have joined again, and hold nothing of it yet."""
    views: list[memoryview] = field(default_factory=list)
    """The answer's bytes. Parameters' memory stays the same; a sum, or a difference, is encoded once, however many ask
    for it and whenever: encoded again it would be another message, with what the first one lost."""
    answer_mask: bytes = b""
    """Segments present anywhere in the last update."""
    first_arrival_s: float = 0.0
    """When something came after which others are waited for."""
    assigned: dict[int, bytes] = field(default_factory=dict)
    """By rank: checksums of what its model has written to the parameters in the step under way."""
    values: list[Tensor] = field(default_factory=list)
    """What worker 0's has."""

    def state(self) -> dict[str, Tensor]:
        """What later steps need of earlier ones. In lockstep all workers have had the answer to the last one, and the
        parameters are those that they hold, unless these are told differences. Where they drift, all that they have
        contributed has come, and none contributes more."""
        found = nested({_CODEC: self.codec.state()})
        if self.updater is not None:
            found |= nested({_OPTIMIZER: self.updater.state()})
        if not self.home.lockstep:
            return found | self._drifted()
        if self.differences:
            found |= nested({_DIFFERENCE: self.differences[0].state()})
            found |= {f"{_PARAMETERS}/{position}": part for position, part in enumerate(self.answer)}
        return found

    def load(self, state: Mapping[str, Tensor], step: int) -> None:
        """Go on from `state()`: in lockstep all workers begin with `step`, and this room with the parameters that they
        hold, which it has already where they are of another job's checkpoint. Where they drift, each joins at its own,
        and gets them from here."""
        if self.home.lockstep:
            self.home.begin_at(step)
        self.codec.load(under(state, _CODEC))
        if self.updater is not None:
            self.updater.load(under(state, _OPTIMIZER))
        if not self.home.lockstep:
            self._load_drifted(state)
        elif self.differences and (told := under(state, _DIFFERENCE)):
            self.differences[0].load(told)
            for position, part in enumerate(self.answer):
                part.copy_(state[f"{_PARAMETERS}/{position}"])

    def _drifted(self) -> dict[str, Tensor]:
        """The parameters, and contributions that have come and are in no update yet."""
        found = {f"{_PARAMETERS}/{position}": part for position, part in enumerate(self.answer)}
        found[_HOME] = _bytes_of(json.dumps(self.home.state()).encode())
        found |= {f"{_SUMS}/{position}": part for position, part in enumerate(self.sums)}
        if self.sums and self.mask is not None:
            found[_MASK] = _bytes_of(self.mask)
        for (rank, step), (payload, mask) in self.kept.items():
            found[f"{_KEPT}/{rank}/{step}/{_MASK}"] = _bytes_of(mask)
            if payload is not None:
                found[f"{_KEPT}/{rank}/{step}/payload"] = _bytes_of(payload)
        return found

    def _load_drifted(self, state: Mapping[str, Tensor]) -> None:
        self.first_arrival_s = time.monotonic()  # of what waits there for others
        self.home.load(json.loads(_of_bytes(state[_HOME])))
        for position, part in enumerate(self.answer):
            part.copy_(state[f"{_PARAMETERS}/{position}"])
        self.sums = [held.clone() for _, held in sorted(under(state, _SUMS).items(), key=lambda s: int(s[0]))]
        self.mask = _of_bytes(state[_MASK]) if _MASK in state else None
        for rank, steps in parted(under(state, _KEPT)).items():
            for step, held in parted(steps).items():
                payload = held.get("payload")
                came = None if payload is None else as_bytes(payload)
                self.kept[int(rank), int(step)] = came, _of_bytes(held[_MASK])


def _bytes_of(content: bytes | memoryview) -> Tensor:
    return (
        torch.frombuffer(bytearray(content), dtype=torch.uint8)
        if len(content)
        else torch.empty(0, dtype=torch.uint8)
    )


def _of_bytes(held: Tensor) -> bytes:
    return bytes(as_bytes(held)) if held.numel() else b""


def present(parts: list[Tensor], mask: bytes) -> list[Tensor]:
    """The pieces whose presence bit is set."""
    return [part for index, part in enumerate(parts) if has(mask, index)] if mask else parts


def rooms_of(
    choice: Choice,
    initial: Mapping[str, Tensor],
    make_updater: Callable[[Choice, list[Tensor]], PieceUpdater],
    *,
    shard: int,
    workers: int,
    policy: Callable[[], Policy],
    rank_order: bool,
) -> list[Room]:
    """Of one unit on shard `shard`: one for each of its phases. The other arguments are the shard's own."""
    unit, sender = choice.unit, f"shard {shard}"
    homes = homes_of(unit, choice.layer, workers=workers, policy=policy, rank_order=rank_order)
    codec = choice.codec(sender, sums=True)
    dtype: torch.dtype = getattr(torch, unit.dtype)
    if choice.flow.answer != "parameters":
        counts = [[count] for count in unit.phases] or [[s.count for s in unit.segments]]
        return [
            Room(choice=choice, codec=codec, home=home, updater=None, dtype=dtype, counts=each)
            for home, each in zip(homes, counts, strict=True)
        ]
    (home,) = homes
    pieces = [initial[s.parameter].detach().reshape(-1)[s.start : s.stop].clone() for s in unit.segments]
    differences = {}
    if choice.answers_differences:
        differences = _differences(choice, pieces, sender, range(workers), lockstep=policy().lockstep)
    return [
        Room(
            choice=choice,
            codec=codec,
            home=home,
            updater=make_updater(choice, pieces),
            dtype=dtype,
            counts=[len(piece) for piece in pieces],
            answer=pieces,
            differences=differences,
        )
    ]


def _differences(
    choice: Choice, parts: list[Tensor], sender: str, ranks: range, *, lockstep: bool
) -> dict[int, Difference]:
    """By rank: what the worker begins with."""
    if lockstep:
        return dict.fromkeys(ranks, Difference(choice.answer_codec(sender), parts))
    return {rank: Difference(choice.answer_codec(f"{sender} to worker {rank}"), parts) for rank in ranks}


def states_of(rooms: Sequence[Room]) -> dict[str, Tensor]:
    """Of all phases of a unit: what later steps need of earlier ones (`Room.state`)."""
    return nested({number: room.state() for number, room in enumerate(rooms)})


def optimizer_states(unit: Unit, state: Mapping[str, Tensor]) -> Iterator[tuple[Segment, str, Tensor]]:
    """Of `states_of` a unit's rooms: what the optimizer keeps in each slot beside each of its segments."""
    for position, full, held in _by_position(state, _OPTIMIZER):
        yield unit.segments[position], full, held


def optimizer_pieces(unit: Unit, whole: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """`states_of` a unit's rooms that have what an optimizer keeps and nothing else; `whole`: by parameter, what it
    keeps of that in each slot. The inverse of `optimizer_states`."""
    pieces = {}
    for position, segment in enumerate(unit.segments):
        for slot, held in whole.get(segment.parameter, {}).items():
            flat = held.reshape(-1)
            pieces[f"{position}/{slot}"] = (
                held if slot in SCALAR_STATE else flat[segment.start : segment.stop]
            )
    return nested({0: nested({_OPTIMIZER: pieces})})


def parameter_pieces(unit: Unit, state: Mapping[str, Tensor]) -> Iterator[tuple[Segment, Tensor]]:
    """Of the same, where the parameters are there: each segment's."""
    for position, _, held in _by_position(state, _PARAMETERS):
        yield unit.segments[position], held


def _by_position(state: Mapping[str, Tensor], prefix: str) -> Iterator[tuple[int, str, Tensor]]:
    for phase in parted(state).values():
        for name, held in under(phase, prefix).items():
            position, _, rest = name.partition("/")
            yield int(position), rest, held


def load_states(rooms: Sequence[Room], state: Mapping[str, Tensor], step: int) -> None:
    """Go on with `step` from `states_of` the same rooms."""
    phases = parted(state)
    for number, room in enumerate(rooms):
        room.load(phases.get(str(number), {}), step)
