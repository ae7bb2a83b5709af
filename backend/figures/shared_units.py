"""Units that carry several layers: what they are called, and whose bytes theirs are.

An event of such a unit (a bucket), and with it the stored bins of a link, have its first layer only. Which layers it
carries, and how much of each, is in the job's plan. So bytes by layer are split here when they are read: rows stay as
few as there are units, and jobs that were stored before are split, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine.axes.exchange import EXCHANGE
from engine.errors import UserError
from engine.plan.description import ModelDescription
from engine.plan.plan import Plan
from engine.plan.scaling import scaled_model, scaled_plan
from engine.plan.serde import from_plain
from engine.plan.units import Unit, carried, cut
from engine.simulate.declared import declared
from engine.telemetry.events import NONE

MOST_KNOWN = 256
Parts = tuple[np.ndarray, np.ndarray]
"""Layers (k), and where the part of each ends (k), the whole being 1."""
_known: dict[tuple[str, float], SharedUnits] = {}


@dataclass(frozen=True, kw_only=True)
class SharedUnits:
    """Those of one job's plan."""

    parts: Mapping[int, Parts] = field(default_factory=dict)
    """Of each unit that carries several layers, by its key on the wire."""
    begins: Mapping[int, int] = field(default_factory=dict)
    """The one such unit by its first layer, where nothing else has that layer in its events."""
    awaited: Mapping[int, int] = field(default_factory=dict)
    """The one such unit by each layer that comes in no other one. Sums of waits have the layer that forward had
    reached; of one that comes in several units they do not tell for which of them it waited."""
    moved: Mapping[int, Mapping[int, Mapping[int, int]]] = field(default_factory=dict)
    """Bytes of a step by party, layer that the events have, and layer that they are of; of parties with such units."""

    def layers(self, unit: int) -> tuple[int, ...]:
        """The layers that a unit carries, in forward order; empty where it is not shared."""
        found = self.parts.get(unit)
        return () if found is None else tuple(found[0].tolist())

    def waited_for(self, layer: int) -> tuple[int, ...]:
        """The layers that come with one that is waited for, and it, in forward order."""
        return self.layers(self.awaited.get(layer, NONE)) or (layer,)

    def sent_with(self, layer: int) -> tuple[int, ...]:
        """The layers that a message carries which is known by the layer in its events, in forward order."""
        return self.layers(self.begins.get(layer, NONE)) or (layer,)

    def split(self, rows: np.ndarray, party: int, size: int) -> np.ndarray:
        """Rows with the columns `layer` and `bytes` of what went over a party's link, with every byte under its own
        layer. `size` neighbouring layers share a row, named by the first of them."""
        moved = self.moved.get(party)
        if not moved or not len(rows):
            return rows
        credits: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for first, layers in moved.items():
            for layer, count in layers.items():
                credits[first // size * size][layer // size * size] += count
        done = []
        left = np.ones(len(rows), bool)
        for first, layers in credits.items():
            which = rows["layer"] == first
            if len(layers) > 1 and which.any():
                left &= ~which
                done.append(_divided(rows[which], parts_of(layers)))
        return np.concatenate([rows[left], *done])


def parts_of(sizes: Mapping[int, int]) -> Parts:
    """The parts that layers of these sizes have in what they make up."""
    layers = np.array(sorted(sizes), np.int64)
    ends = np.cumsum([sizes[layer] for layer in layers.tolist()])
    return layers, ends / ends[-1]


def divided(whole: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """(n, k) whole numbers that add up to each of `whole` (n), in parts that end at `ends` (k)."""
    until = np.floor(whole[:, None] * ends[None, :]).astype(np.int64)
    until[:, -1] = whole
    return np.diff(until, axis=1, prepend=0)


def _divided(rows: np.ndarray, parts: Parts) -> np.ndarray:
    layers, ends = parts
    found = np.repeat(rows, len(layers))
    found["layer"] = np.tile(layers, len(rows))
    found["bytes"] = divided(rows["bytes"], ends).ravel()
    return found[found["bytes"] != 0]


def known(
    job_id: str,
    read: Callable[[], tuple[Any, Any]],
    *,
    workers: int,
    hosts: int | None,
    scale: float,
) -> SharedUnits:
    """Those of a job, whose plan never changes: what `read` answers, its plan and its model's description as they are
    stored, is looked at once. None are shared where another version stored what this one cannot read."""
    key = (job_id, scale)
    if key not in _known:
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        plan, description = read()
        _known[key] = _stored(plan, description, workers, hosts, scale)
    return _known[key]


def _stored(plan: Any, description: Any, workers: int, hosts: int | None, scale: float) -> SharedUnits:
    layers = plan.get("layers", ()) if plan and description else ()
    # Most plans have no buckets, and reading one takes milliseconds.
    if not any((layer.get("order") or {}).get("unit") == "bucket" for layer in layers):
        return SharedUnits()
    try:
        model = scaled_model(ModelDescription.from_dict(description), scale)
        scaled = scaled_plan(from_plain(Plan, plan), scale)
    except UserError:
        return SharedUnits()
    assert isinstance(scaled, Plan)
    return shared_units(scaled, model, workers, hosts)


def shared_units(plan: Plan, model: ModelDescription, workers: int, hosts: int | None = None) -> SharedUnits:
    """Those of a plan that so many workers follow."""
    place = {layer.name: layer.index for layer in model.layers}
    owner = {
        p.name: layer.index
        for layer in model.layers
        for p in carried(layer, plan.consistency.travelling_state)
    }
    pieces = cut(plan, model)
    units = {unit.index: _sizes(unit, owner) for unit in pieces}
    shared = {index: sizes for index, sizes in units.items() if len(sizes) > 1}
    if not shared:
        return SharedUnits()
    comes: dict[int, set[int]] = defaultdict(set)
    """Units by the layers that they carry."""
    for index, sizes in units.items():
        for layer in sizes:
            comes[layer].add(index)
    native = {layer.layer for layer in plan.layers if "counted" not in EXCHANGE[layer.exchange].traits}
    counted = {unit.index for unit in pieces if unit.layers[0] in native}
    said: dict[int, set[int]] = defaultdict(set)
    """Units by the layer that their events have."""
    by_unit: dict[int, dict[tuple[int, int], int]] = defaultdict(lambda: defaultdict(int))
    for transfer in declared(plan, model, workers, hosts):
        first = place[transfer.layer]
        said[first].add(transfer.unit)
        for party in (transfer.source, transfer.destination) if transfer.wire else ():
            by_unit[party][transfer.unit, first] += transfer.bytes
    return SharedUnits(
        parts={index: parts_of(sizes) for index, sizes in shared.items()},
        begins={first: one for first, (one, *more) in said.items() if one in shared and not more},
        awaited={layer: one for layer, (one, *more) in comes.items() if one in shared and not more},
        moved={
            party: _by_layer(moved, units, counted)
            for party, moved in by_unit.items()
            if any(unit in shared and unit not in counted for unit, _ in moved)
        },
    )


def _by_layer(
    moved: Mapping[tuple[int, int], int], units: Mapping[int, Mapping[int, int]], counted: Collection[int]
) -> dict[int, dict[int, int]]:
    """`{layer that bins have: {layer: bytes}}` of what a party moved, by unit and its first layer. What is no unit of
    the cut is an edge's, which has one layer. Of `counted` units, those of native collectives, the worker has told the
    layers apart already (`engine/telemetry/collectives.py`)."""
    found: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for (unit, first), size in moved.items():
        sizes = units.get(unit) or {first: 1}
        layers, ends = parts_of(sizes)
        for layer, part in zip(layers.tolist(), divided(np.array([size]), ends)[0].tolist(), strict=True):
            found[layer if unit in counted else first][layer] += part
    return {first: dict(layers) for first, layers in found.items()}


def _sizes(unit: Unit, owner: Mapping[str, int]) -> dict[int, int]:
    """Elements of each layer that has any in the unit."""
    found: dict[int, int] = defaultdict(int)
    for segment in unit.segments:
        if segment.count:
            found[owner[segment.parameter]] += segment.count
    return dict(found)
