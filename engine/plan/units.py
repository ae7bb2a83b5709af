"""Units: what a plan's layers are cut into before anything travels.

A unit is a run of elements of one or several parameters of one type. Slices and shards are cut at
element boundaries of the layer's parameters laid end to end (weight, then bias), as P3 and KVStore do
(papers 004, sections 4.1 and 4.2); buckets join neighbouring layers, last layer first, as their gradients
become ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, pairwise, repeat
from typing import Any

from engine.axes.exchange import EXCHANGE
from engine.axes.matrices import Rows, cut_rows, rows_of
from engine.plan.consistency import drifts
from engine.plan.description import LayerDescription, ModelDescription, ParameterDescription
from engine.plan.encoding import Encoding
from engine.plan.optimizers import SCALAR_STATE
from engine.plan.plan import LayerPlan, Plan


@dataclass(frozen=True, slots=True)
class Segment:
    """Elements [start, stop) of one parameter, flattened in row-major order."""

    parameter: str
    start: int
    stop: int

    @property
    def count(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """What travels as one: one message per direction and worker."""

    index: int
    """Its key on the wire."""
    layers: tuple[str, ...]
    """The layers it holds parts of (more than one only for buckets), in forward order."""
    position: int
    """The first forward position among its layers: its priority."""
    segments: tuple[Segment, ...]
    """The parts of parameters that it carries, in the order in which they travel."""
    dtype: str
    """The parameters' common type, e.g. `float32`."""
    shard: int | None
    """The server shard that it lives on, or None."""
    rows: tuple[Rows, ...] = field(default=(), compare=False)
    """By segment: of which matrix its elements are rows."""
    phases: tuple[int, ...] = field(default=(), compare=False)
    """How many numbers all workers sum in each phase, where its codec has them share what they express theirs in;
    empty: its elements are summed, in one."""

    @property
    def summed(self) -> tuple[int, ...]:
        """How many numbers are summed in each phase, elements or others; they are counted through."""
        return self.phases or (self.count,)

    @property
    def count(self) -> int:
        """Elements."""
        return sum(s.count for s in self.segments)

    def message_bytes(self, way: Encoding, start: int, stop: int) -> int:
        """Of a message of its elements [start, stop) that stands by itself; at most, where they are not `exact`."""
        return way.bytes(self.dtype, stop - start, cut_rows(self.rows, start, stop))


def state_name(parameter: str, slot: str) -> str:
    """What a tensor of a parameter's optimizer state is called in segments."""
    return f"{parameter}@{slot}"


def carried(layer: LayerDescription, state: Iterable[str] = ()) -> list[ParameterDescription]:
    """What a layer's units carry: its trainable parameters, then the optimizer's `state` of each, slot by slot."""
    trainable = [p for p in layer.parameters if p.trainable]
    found = list(trainable)
    for slot in state:
        for p in trainable:
            kept: dict[str, Any] = {"shape": (), "dtype": "float32"} if slot in SCALAR_STATE else {}
            found.append(replace(p, name=state_name(p.name, slot), also_used_by=(), **kept))
    return found


def cut(plan: Plan, model: ModelDescription) -> tuple[Unit, ...]:
    """Cut every layer of `plan` into units and give each its server shard, the same on every party."""
    described = {layer.name: layer for layer in model.layers}
    pieces: list[tuple[LayerPlan, tuple[LayerDescription, ...], str, tuple[Segment, ...], int | None]] = []
    shares = plan.servers.shares or (1.0,) * plan.servers.count
    shards = [shard for shard, share in enumerate(shares) if share > 0]
    loads = [0] * plan.servers.count

    def emptiest(count: int) -> int:
        """The shard that would be the least full, for its share, with `count` elements more."""
        return min(shards, key=lambda shard: (loads[shard] + count) / shares[shard])

    for layer_plan in plan.layers:
        layer = described[layer_plan.layer]
        if layer_plan.order.unit == "bucket" or layer_plan.placement == "device":
            continue  # buckets: below; a layer that is computed in one place has nothing to exchange
        served = "server" in EXCHANGE[layer_plan.exchange].traits
        for dtype, parameters in _by_dtype(carried(layer, plan.consistency.travelling_state)):
            count = sum(p.count for p in parameters)
            if layer_plan.order.unit == "slice":
                assert layer_plan.order.size is not None
                for run in _runs(parameters, repeat(layer_plan.order.size)):
                    elements, shard = sum(s.count for s in run), None
                    if served:
                        shard = emptiest(elements)
                        loads[shard] += elements
                    pieces.append((layer_plan, (layer,), dtype, run, shard))
            elif served and plan.servers.split_over is not None and count > plan.servers.split_over:
                sizes = _split(count, [shares[shard] for shard in shards])
                for shard, run in zip(
                    [shard for shard, size in zip(shards, sizes, strict=True) if size],
                    _runs(parameters, (size for size in sizes if size)),
                    strict=True,
                ):
                    pieces.append((layer_plan, (layer,), dtype, run, shard))
                    loads[shard] += sum(s.count for s in run)
            else:
                shard = emptiest(count) if served else None
                if shard is not None:
                    loads[shard] += count
                pieces.append(
                    (
                        layer_plan,
                        (layer,),
                        dtype,
                        tuple(Segment(p.name, 0, p.count) for p in parameters),
                        shard,
                    )
                )
    for members, dtype, segments in _buckets(plan, described):
        pieces.append((members[0], tuple(described[m.layer] for m in members), dtype, segments, None))
    shapes = {
        p.name: p.shape for layer in model.layers for p in carried(layer, plan.consistency.travelling_state)
    }
    units = []
    for index, (layer_plan, layers, dtype, segments, shard) in enumerate(pieces):
        rows = tuple(rows_of(shapes[s.parameter], s.start, s.stop) for s in segments)
        units.append(
            Unit(
                index=index,
                layers=tuple(layer.name for layer in layers),
                position=min(layer.index for layer in layers),
                segments=segments,
                dtype=dtype,
                shard=shard,
                rows=rows,
                phases=layer_plan.encoding.phases(rows) if sums_in_phases(plan, layer_plan) else (),
            )
        )
    return tuple(units)


def sums_in_phases(plan: Plan, layer: LayerPlan) -> bool:
    """Whether what a layer's codec makes is summed over all workers in phases: where all of them take part in each sum,
    and get nothing else."""
    exchange = EXCHANGE[layer.exchange]
    if "linear" not in layer.encoding.traits or "encoded" in exchange.traits:
        return False
    if "server" in exchange.traits:
        return layer.update == "worker" and not drifts(plan.consistency)
    return exchange.rounds is not None


def _split(count: int, shares: Sequence[float]) -> list[int]:
    """`count` elements by shares, the rest of each division to the later ones."""
    ends = [int(count * end / sum(shares)) for end in accumulate(shares)][:-1]
    return [stop - start for start, stop in pairwise([0, *ends, count])]


def _by_dtype(parameters: Iterable[ParameterDescription]) -> Iterator[tuple[str, list[ParameterDescription]]]:
    """What a layer's units carry, split where the type changes: a unit has one type."""
    for dtype, group in groupby(parameters, key=lambda p: p.dtype):
        yield dtype, list(group)


def _runs(parameters: Iterable[ParameterDescription], sizes: Iterator[int]) -> Iterator[tuple[Segment, ...]]:
    """The parameters laid end to end, cut into runs of `sizes` elements; the last run may be shorter."""
    run: list[Segment] = []
    room = next(sizes)
    for parameter in parameters:
        start = 0
        while start < parameter.count:
            stop = min(parameter.count, start + room)
            run.append(Segment(parameter.name, start, stop))
            room -= stop - start
            start = stop
            if room == 0:
                yield tuple(run)
                run, room = [], next(sizes, 0)
    if run:
        yield tuple(run)


def _buckets(
    plan: Plan, described: Mapping[str, LayerDescription]
) -> Iterator[tuple[tuple[LayerPlan, ...], str, tuple[Segment, ...]]]:
    """Neighbouring layers with equal choices, joined from the last to the first until `size` bytes are reached. Layers
    of other fragments in between do not part them."""
    bucketed = [lp for lp in reversed(plan.layers) if lp.order.unit == "bucket" and lp.placement != "device"]
    bucketed.sort(key=lambda lp: lp.fragment)
    for (_, order, _, dtype, _, _), group in groupby(
        (
            (layer_plan, dtype, parameters)
            for layer_plan in bucketed
            for dtype, parameters in reversed(
                list(_by_dtype(carried(described[layer_plan.layer], plan.consistency.travelling_state)))
            )
        ),
        key=lambda item: (
            item[0].exchange,
            item[0].order,
            item[0].encoding,
            item[1],
            item[0].place,
            item[0].fragment,
        ),
    ):
        assert order.size is not None
        members: list[LayerPlan] = []
        segments: list[Segment] = []
        held = 0
        for layer_plan, _, parameters in group:
            if layer_plan not in members:
                members.append(layer_plan)
            segments += [Segment(p.name, 0, p.count) for p in reversed(parameters)]
            held += sum(p.nbytes for p in parameters)
            if held >= order.size:
                yield tuple(reversed(members)), dtype, tuple(segments)
                members, segments, held = [], [], 0
        if segments:
            yield tuple(reversed(members)), dtype, tuple(segments)
