"""Composition: one plan out of several strategies' choices and single values, layer by layer, as a job's overrides say.

Overrides apply in their order, later ones on top of earlier ones. What stays one for the whole job (consistency, input,
the set of server shards) must agree; whether the result can run is for `rules.resolve` to say, as of any plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace

from engine.errors import UserError
from engine.exchange import EXCHANGE
from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.overrides import Override, matching
from engine.plan.plan import LayerPlan, Order, Peer, Plan, Servers
from engine.plan.rules import is_served

MOST_OVERRIDES = 1000
USUAL_SIZE = {"slice": 50_000, "bucket": 4 * 1024 * 1024}
"""Of a unit that an override asks for without a size: P3's best slice (papers 004, section 5.6), our rings' bucket."""

Build = Callable[[Override, str], Plan | Peer]
"""(override, its field) -> the plan that its strategy makes of the whole model."""


def compose(
    plan: Plan | Peer, overrides: Sequence[Override], model: ModelDescription, cluster: Cluster, build: Build
) -> Plan | Peer:
    """`plan` with the choices of `overrides`; every layer says which of them set it. Raises UserError for an override
    that matches nothing, or whose strategy cannot stand beside the plan's."""
    if not overrides:
        return plan
    if isinstance(plan, Peer):
        raise UserError(
            "overrides",
            len(overrides),
            f"{plan.strategy} is run by PyTorch's own wrapper, which decides by itself what travels",
            "Leave overrides out, or choose a strategy of ours, such as native-allreduce",
        )
    if len(overrides) > MOST_OVERRIDES:
        raise UserError(
            "overrides", len(overrides), f"more than {MOST_OVERRIDES}", "Use patterns that match more layers"
        )
    chosen = {entry.layer: entry for entry in plan.layers}
    origin = dict.fromkeys(chosen, plan)
    for number, override in enumerate(overrides):
        where = f"overrides.{number}"
        other = _beside(plan, build(override, where), override, where) if override.strategy else None
        theirs = {} if other is None else {entry.layer: entry for entry in other.layers}
        for name in matching(override, model, where):
            entry = chosen[name]
            _is_exchanged(entry, override, where)
            if other is not None:
                origin[name] = other
                entry = replace(theirs[name], placement=entry.placement, place=entry.place, overrides=())
            chosen[name] = _changed(entry, override, number, where)
    layers = tuple(chosen[entry.layer] for entry in plan.layers)
    sources = {id(found): found for found in (plan, *origin.values())}
    warnings = [warning for found in sources.values() for warning in found.warnings]
    lost = set(range(len(overrides))) - {number for entry in layers for number in entry.overrides}
    warnings += [
        f"overrides.{number} changes nothing: later ones replace it on every layer that it matches."
        for number in sorted(lost)
    ]
    return replace(
        plan,
        layers=layers,
        servers=_servers(layers, origin, cluster),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _beside(plan: Plan, other: Plan | Peer, override: Override, where: str) -> Plan:
    """The plan of an override's strategy, if its layers can stand beside those of `plan`."""
    reason = None
    if isinstance(other, Peer):
        reason = "it is run by PyTorch's own wrapper, for the whole model or not at all"
    elif other.consistency != plan.consistency:
        ours, theirs = plan.consistency, other.consistency
        name = next(f.name for f in fields(ours) if getattr(ours, f.name) != getattr(theirs, f.name))
        reason = (
            f"how far workers may drift is chosen for the job: {plan.strategy} says {name} {getattr(ours, name)}, it "
            f"says {getattr(theirs, name)}"
        )
    elif other.input != plan.input:
        reason = f"where data are prepared is chosen for the job, and it differs from {plan.strategy}"
    elif other.edges or any(entry.placement != "replicated" for entry in other.layers):
        reason = "it places layers, and activations travel between them: that is chosen for the whole model"
    if reason is not None or isinstance(other, Peer):
        raise UserError(
            f"{where}.strategy",
            override.strategy,
            f"cannot be combined layer by layer: {reason}",
            "Make it the job's own strategy, or choose another one here",
        )
    return other


def _is_exchanged(entry: LayerPlan, override: Override, where: str) -> None:
    if entry.placement == "device" and (override.strategy or set(override.values) - {"activations"}):
        raise UserError(
            where,
            override.what,
            f"{entry.layer} is computed on one device: nothing of it is exchanged",
            "Match layers in front of the cut only",
        )


def _changed(entry: LayerPlan, override: Override, number: int, where: str) -> LayerPlan:
    """One layer with the values of an override, and with what follows from another exchange."""
    given = override.values
    exchange = given.get("exchange", entry.exchange)
    traits = EXCHANGE[exchange].traits
    try:
        return replace(
            entry,
            exchange=exchange,
            update=given.get(
                "update", "auto" if entry.update == "server" and "server" not in traits else entry.update
            ),
            codec=given.get("codec", entry.codec),
            entropy_coding=given.get("entropy_coding", entry.entropy_coding),
            order=_order(entry.order, override, traits),
            activations=given.get("activations", entry.activations),
            overrides=(*entry.overrides, number),
        )
    except UserError as error:
        raise error.within(where) from None


def _order(order: Order, override: Override, traits: frozenset[str]) -> Order:
    """The order after an override: what is not given stays, unless it means nothing for the exchange."""
    served = "server" in traits
    apart = "whole" not in traits and not (served and order.unit == "bucket")
    unit = override.unit or (order.unit if apart else "layer")
    size = override.size
    if size is None and unit != "layer":
        size = order.size if unit == order.unit else USUAL_SIZE[unit]
    answers = order.returns if (order.returns != "none") == served else "push" if served else "none"
    return Order(
        unit=unit,
        size=size,
        depart=override.depart or order.depart,
        rank=override.rank or ("fifo" if "ordered" in traits else order.rank),
        returns=override.returns or answers,
    )


def _servers(layers: Sequence[LayerPlan], origin: Mapping[str, Plan], cluster: Cluster) -> Servers:
    """The one set of shards of all served layers: what the strategies that chose them say, where they say the same."""
    served = [entry for entry in layers if is_served(entry)]
    if not served:
        return Servers()
    plans = [plan for entry in served if (plan := origin[entry.layer]).servers.count > 0]
    places = {
        (p.servers.count, p.servers.where): f"{p.strategy} wants {p.servers.count} {p.servers.where}"
        for p in plans
    }
    if len(places) > 1:
        raise UserError(
            "overrides",
            list(dict.fromkeys(p.strategy for p in plans)),
            f"a job has one set of server shards for all its layers: {', '.join(places.values())}",
            "Give these strategies the same number of servers, and the same where",
        )
    if not places:  # by an override's exchange, beside no strategy with servers
        alone = any(entry.exchange == "central-reducer" for entry in served)
        return Servers(count=1 if alone else cluster.workers)
    whole = [origin[entry.layer].servers for entry in served if entry.order.unit == "layer"]
    splits = sorted({s.split_over for s in whole if s.split_over is not None})
    if len(splits) > 1 and plans[0].servers.count > 1:
        raise UserError(
            "overrides",
            splits,
            "a job has one size from which layers are split over its shards",
            "Give these strategies the same split_over",
        )
    return replace(plans[0].servers, split_over=splits[0] if splits else None)
