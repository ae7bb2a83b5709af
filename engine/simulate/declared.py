"""Declared bytes: what a plan must move in one step, or in a whole job, message by message, before anything runs.

The machines that the runtime runs say it, on a virtual clock. Units of one size whose layers' choices are the same move
the same bytes, so only one of them is played out. For one step each unit is exchanged once: where workers average every
k steps, that is a step which ends with an average; in the others nothing moves. Where they drift, every contribution is
answered once, as it is where they do not. A job's steps are played out under its own mode, with the steps in which it
averages and, where workers drift, the last answers, which come when nobody contributes any more. Native collectives are
taken for a ring, which moves the least there is to move.

A test compares these with the bytes that the transport counts; the launch page shows them per layer.
Payload only: headers, notifications, pull requests and heartbeats are counted apart as overhead. Factors have a row per
sample: they are declared for a whole global batch, and where samples differ in length, for the example that the model
was described with, which is of the longest.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from engine.axes.consistency import CONSISTENCY
from engine.axes.exchange import EXCHANGE
from engine.consistency.every_step import EveryStep
from engine.consistency.policies import policy_of
from engine.errors import UserError
from engine.plan.cluster import parties
from engine.plan.consistency import trains_alone
from engine.plan.description import ModelDescription
from engine.plan.edges import edge_units
from engine.plan.plan import LayerPlan, Plan, Wrapper
from engine.plan.units import Unit, carried, cut
from engine.simulate.clock import VirtualClock
from engine.simulate.happened import Simulated
from engine.simulate.network import Passed
from engine.simulate.run import Exchanges, simulate
from engine.transport.message import Header

CHECKED_EVERY = 10_000
"""So many messages are played out between two looks whether somebody still waits: a fifth of a second."""
Moved = Mapping[tuple[int, int, int], int]
"""(sender, receiver, unit): payload bytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Transfer:
    """One message (or the sum of a unit's messages) from one party to another in one step."""

    source: int
    """Sending party."""
    destination: int
    """Receiving party."""
    unit: int
    """The unit's index."""
    layer: str
    """The unit's first layer in forward order."""
    bytes: int
    """Payload."""
    wire: bool
    """False between parties of one host: such bytes never cross the network."""


class AtOnce:
    """A network in which every message is there at once: for bytes, which do not depend on when they move."""

    def __init__(
        self,
        clock: VirtualClock,
        hosts: Mapping[int, str],
        deliver: Callable[[int, Header], None],
        *,
        count: Callable[[], None] = lambda: None,
    ) -> None:
        """As `VirtualNetwork` takes them. `count` is called for each message."""
        self._clock = clock
        self._parties = tuple(hosts)
        self._deliver = deliver
        self._count = count
        self.passed: list[Passed] = []

    def send(
        self, source: int, destination: int, header: Header, on_sent: Callable[[], None] | None = None
    ) -> None:
        """Deliver a message, when what happens now has happened."""
        self._count()
        self._clock.at(self._clock.now_ns, partial(self._deliver, destination, header))
        if on_sent is not None:
            self._clock.at(self._clock.now_ns, on_sent)

    def lose(self, party: int, hears: Callable[[int], None]) -> None:
        """See Network: nothing is on its way."""
        self.meet(party, hears)

    def meet(self, party: int, hears: Callable[[int], None]) -> None:
        """See Network."""
        for other in self._parties:
            if other != party:
                self._clock.at(self._clock.now_ns, partial(hears, other))


def declared(
    plan: Plan | Wrapper,
    model: ModelDescription,
    workers: int,
    hosts: int | None = None,
    *,
    steps: int | None = None,
) -> Iterator[Transfer]:
    """Every transfer of one step of a resolved plan that exchanges; with `steps`, all that a job of so many moves, each
    in one sum. A peer declares nothing: it decides by itself."""
    if isinstance(plan, Wrapper):
        return
    at = [party.host for party in parties(plan, workers, hosts)]
    moved = (
        (unit, source, destination, size)
        for unit, played in exchanged(plan, model, workers, steps)
        for (source, destination, _), size in played.moved.items()
    )
    for unit, source, destination, size in chain(moved, crossing(plan, model, workers, steps or 1)):
        yield Transfer(
            source=source,
            destination=destination,
            unit=unit.index,
            layer=unit.layers[0],
            bytes=size,
            wire=at[source] != at[destination],
        )


class Played:
    """What units that are alike move."""

    def __init__(self, played: Simulated) -> None:
        self.moved: Moved = played.moved
        self.encoded, self.decoded = played.encoded, played.decoded
        """By party: elements."""
        self._across: int | None = None

    def across(self, at: Sequence[str]) -> int:
        """Bytes between parties of different hosts (`at`, always the same ones)."""
        if self._across is None:
            self._across = sum(size for (one, other, _), size in self.moved.items() if at[one] != at[other])
        return self._across


def exchanged(
    plan: Plan,
    model: ModelDescription,
    workers: int,
    steps: int | None,
    count: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Unit, Played]]:
    """Every unit, and what its layer's exchange moves of it. `count` is called for each message."""
    choices = {layer.layer: layer for layer in plan.layers}
    known: dict[Hashable, Played] = {}
    for unit in cut(plan, model):
        layer = choices[unit.layers[0]]
        key = _alike(layer, unit)
        if key not in known:
            known[key] = Played(
                simulate(
                    plan,
                    model,
                    workers=workers,
                    steps=steps or 1,
                    policy=partial(
                        EveryStep if steps is None else partial(policy_of, plan.consistency), workers
                    ),
                    exchanges=_averages(plan, workers, steps),
                    network=partial(AtOnce, count=count),
                    units=(unit,),
                    edges=False,
                )
            )
        yield unit, known[key]


def crossing(
    plan: Plan,
    model: ModelDescription,
    workers: int,
    steps: int,
    count: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Unit, int, int, int]]:
    """(unit, source, destination, bytes) of what stages and devices send one another: every step's passes are alike."""
    if not plan.edges:
        return
    units = {unit.index: unit for unit in edge_units(plan, model)}
    moved = simulate(
        plan,
        model,
        workers=workers,
        steps=1,
        policy=partial(EveryStep, workers),
        network=partial(AtOnce, count=count),
        units=(),
    ).moved
    for (source, destination, unit), size in moved.items():
        if size:
            yield units[unit], source, destination, size * steps


class Limit:
    """Of messages: with many workers, playing them out takes minutes, in which somebody waits for an answer."""

    def __init__(self, most: int, workers: int, check: Callable[[], None]) -> None:
        self._counted = 0
        self._most = most
        self._workers = workers
        self._check = check

    def count(self) -> None:
        self._counted += 1
        if self._counted > self._most:
            raise UserError(
                "cluster.workers",
                self._workers,
                f"one step of this plan takes more than {self._most:,} messages, too many to tell its bytes",
                "Use fewer workers, larger slices or buckets, or a strategy with fewer messages",
            )
        if self._counted % CHECKED_EVERY == 0:
            self._check()


def _averages(plan: Plan, workers: int, steps: int | None) -> Exchanges | None:
    """When workers average in a job of so many steps, if they do."""
    if steps is None or not trains_alone(plan.consistency):
        return None
    mode = CONSISTENCY[plan.consistency.mode].load()
    found: Exchanges = mode(plan.consistency, workers=workers, total_steps=steps)
    return found


def _alike(layer: LayerPlan, unit: Unit) -> Hashable:
    """What a unit's bytes depend on."""
    factors = layer.layer if "factored" in EXCHANGE[layer.exchange].traits else None
    return (
        layer.exchange, layer.encoding, layer.answer_encoding, layer.update, layer.order.returns, factors,
        unit.count, unit.dtype, unit.shard, layer.fragment, layer.placement, layer.place, unit.phases,
        _shaped(layer, unit),
    )  # fmt: skip


def _shaped(layer: LayerPlan, unit: Unit) -> Hashable:
    """The same beside its size: of which matrices its elements are rows, where a codec asks for that. With servers it
    travels whole, so that its messages' bytes say as much."""
    ways = [way for way in (layer.encoding, layer.answer_encoding) if "matrices" in way.traits]
    if not ways or "server" not in EXCHANGE[layer.exchange].traits:
        return unit.rows if ways else None
    return tuple(unit.message_bytes(way, 0, unit.count) for way in ways)


def wire_bytes(plan: Plan | Wrapper, model: ModelDescription, workers: int, hosts: int | None = None) -> int:
    """Payload bytes that cross the network in one step, over all links."""
    return sum(t.bytes for t in declared(plan, model, workers, hosts) if t.wire)


def wire_bytes_by_layer(
    plan: Plan | Wrapper,
    model: ModelDescription,
    workers: int,
    hosts: int | None = None,
    *,
    most: int | None = None,
    check: Callable[[], None] = lambda: None,
) -> dict[str, int]:
    """The same for each layer; a bucket's bytes are shared out by its layers' elements, an edge's belong to the layer
    that it leads to. Raises UserError where more than `most` messages would have to be played out for it; with `most`,
    `check()` is called now and then meanwhile, and may raise."""
    if isinstance(plan, Wrapper):
        return {}
    state = plan.consistency.travelling_state
    owner = {p.name: layer.name for layer in model.layers for p in carried(layer, state)}
    totals: dict[str, int] = {layer.layer: 0 for layer in plan.layers}
    at = [party.host for party in parties(plan, workers, hosts)]
    count = Limit(most, workers, check).count if most is not None else lambda: None
    for unit, source, destination, size in crossing(plan, model, workers, 1, count):
        if at[source] != at[destination]:
            totals[unit.layers[0]] += size
    for unit, played in exchanged(plan, model, workers, None, count):
        size, before = played.across(at), 0
        for segment in unit.segments:  # shared out so that not a byte is lost to rounding
            after = before + segment.count
            totals[owner[segment.parameter]] += size * after // unit.count - size * before // unit.count
            before = after
    return totals
