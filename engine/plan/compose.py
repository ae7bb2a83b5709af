"""Composition: one plan out of several strategies' choices and single values, layer by layer, as a job's overrides say.

Overrides apply in their order, later ones on top of earlier ones. What stays one for the whole job (consistency, input,
the set of server shards) must agree; whether the result can run is for `rules.resolve` to say, as of any plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from engine.axes.codec import CODEC
from engine.axes.exchange import EXCHANGE
from engine.errors import UserError, refuse
from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.job import JobSpec
from engine.plan.layer_rules import is_served, layer_refusals
from engine.plan.overrides import Override, matching, named
from engine.plan.plan import LayerPlan, Order, Plan, Servers, Wrapper
from engine.plan.sizing import USUAL_SIZE

MOST_OVERRIDES = 1000
_OF_MEMORY = {"activations", "activation_options"}

Build = Callable[[Override, str], Plan | Wrapper]
"""(override, its field) -> the plan that its strategy makes of the whole model."""


def compose(
    plan: Plan | Wrapper, job: JobSpec, model: ModelDescription, cluster: Cluster, build: Build
) -> Plan | Wrapper:
    """`plan` with the choices of the job's overrides; every layer says which of them set it. Raises UserError for all
    overrides that match nothing, whose strategy cannot stand beside the plan's, or whose values a layer cannot have;
    and then for the rules that other layers break, too."""
    overrides = job.overrides
    if not overrides:
        return plan
    if isinstance(plan, Wrapper):
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
    refused: list[UserError] = []
    unclear: set[str] = set()
    for number, override in enumerate(overrides):
        where = f"overrides.{number}"
        names: tuple[str, ...] = ()
        try:
            names = matching(override, model, where)
            other = _beside(plan, build(override, where), override, where) if override.strategy else None
        except UserError as error:
            refused += error.every
            unclear.update(names)
            continue
        theirs = {} if other is None else {entry.layer: entry for entry in other.layers}
        failed: dict[str, UserError] = {}
        for name in names:
            try:
                chosen[name] = _changed(chosen[name], theirs.get(name), override, number, where)
            except UserError as error:
                failed[name] = error
            else:
                origin[name] = other or origin[name]
        refused += _by_reason(failed, len(names))
        unclear.update(failed)
    layers = tuple(chosen[entry.layer] for entry in plan.layers)
    sources = {id(found): found for found in (plan, *origin.values())}
    warnings = [warning for found in sources.values() for warning in found.warnings]
    sized = [found for found in sources.values() if _still_sized(found, layers, origin)]
    lost = set(range(len(overrides))) - {number for entry in layers for number in entry.overrides}
    warnings += [
        f"overrides.{number} changes nothing: later ones replace it on every layer that it matches."
        for number in sorted(lost)
    ]
    composed = replace(
        plan,
        layers=layers,
        warnings=tuple(dict.fromkeys(warnings)),
        reasons=_reasons(plan, sized),
    )
    try:
        composed = replace(composed, servers=_servers(layers, origin, cluster))
    except UserError as error:
        refused.append(error)
        composed = replace(composed, servers=Servers())
    if refused:
        clear = [entry for entry in layers if entry.layer not in unclear]
        refuse(
            [*refused, *(e for entry in clear for e in layer_refusals(entry, composed, model, cluster, job))]
        )
    return composed


def _still_sized(found: Plan, layers: Sequence[LayerPlan], origin: Mapping[str, Plan]) -> bool:
    """Whether a layer still has the unit and size that `found`, of which its choices are, gave it. Else an override has
    changed them all, and what that plan says of its sizes is not so."""
    given = {entry.layer: (entry.order.unit, entry.order.size) for entry in found.layers}
    return any(
        origin[entry.layer] is found and (entry.order.unit, entry.order.size) == given[entry.layer]
        for entry in layers
    )


def _reasons(plan: Plan, sized: Sequence[Plan]) -> tuple[str, ...]:
    """What `plan` and those of overrides' strategies say of their sizes: each sentence once, with those that say it
    where the job's own strategy does not."""
    said: dict[str, list[Plan]] = {}
    for found in sized:
        for why in found.reasons:
            said.setdefault(why, []).append(found)
    return tuple(
        why
        if any(found is plan for found in whose)
        else f"Overrides with {' and '.join(dict.fromkeys(found.strategy for found in whose))}: {why}"
        for why, whose in said.items()
    )


def _by_reason(failed: Mapping[str, UserError], matched: int) -> Iterator[UserError]:
    """What one override's layers cannot have, each reason once; one that does not hold for all of the `matched` layers
    says for which."""
    for reason in dict.fromkeys(map(str, failed.values())):
        layers = [layer for layer, error in failed.items() if str(error) == reason]
        error = failed[layers[0]]
        rule = error.rule if len(layers) == matched else f"{error.rule} ({named(layers)})"
        yield UserError(error.field, error.value, rule, error.remedy)


def _beside(plan: Plan, other: Plan | Wrapper, override: Override, where: str) -> Plan:
    """The plan of an override's strategy, if its layers can stand beside those of `plan`."""
    reason = None
    if isinstance(other, Wrapper):
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
    if reason is not None or isinstance(other, Wrapper):
        raise UserError(
            f"{where}.strategy",
            override.strategy,
            f"cannot be combined layer by layer: {reason}",
            "Make it the job's own strategy, or choose another one here",
        )
    return other


def _changed(
    entry: LayerPlan, theirs: LayerPlan | None, override: Override, number: int, where: str
) -> LayerPlan:
    """One layer with the choices of an override's strategy (`theirs`) and its own values, and with what follows from
    another exchange."""
    if entry.placement == "device" and (override.strategy or set(override.values) - _OF_MEMORY):
        raise UserError(
            where,
            override.what,
            "computed on one device: nothing of these layers is exchanged",
            "Match layers in front of the cut only",
        )
    if theirs is not None:
        entry = replace(theirs, placement=entry.placement, place=entry.place, overrides=())
    given, order, update = override.values, entry.order, entry.update
    if override.exchange is not None:
        traits = EXCHANGE[override.exchange].traits
        order = _following(order, traits)
        if "server" not in traits:
            update = "auto" if update == "server" else update
            entry = replace(
                entry, answers=LayerPlan.answers, answer_options={}
            )  # the default: nobody answers
    try:
        return replace(
            entry,
            exchange=given.get("exchange", entry.exchange),
            update=given.get("update", update),
            codec=given.get("codec", entry.codec),
            codec_options=_options(entry, override, "codec", "codec_options"),
            answers=given.get("answers", entry.answers),
            answer_options=_options(entry, override, "answers", "answer_options"),
            entropy_coding=given.get("entropy_coding", _stays_coded(entry, override)),
            order=_order(order, override),
            activations=given.get("activations", entry.activations),
            activation_options=_options(entry, override, "activations", "activation_options"),
            fragment=given.get("fragment", entry.fragment),
            overrides=(*entry.overrides, number),
        )
    except UserError as error:
        raise error.within(where) from None


def _options(entry: LayerPlan, override: Override, of: str, field: str) -> dict[str, Any]:
    """The `field` of the mechanism `of` after an override: another mechanism begins with its own defaults."""
    kept = getattr(entry, field) if getattr(override, of) in (None, getattr(entry, of)) else {}
    return {**kept, **(getattr(override, field) or {})}


def _stays_coded(entry: LayerPlan, override: Override) -> bool:
    """Whether messages go on being entropy-coded after an override that says nothing of it."""
    return entry.entropy_coding and "sparse" in CODEC[override.codec or entry.codec].traits


def _following(order: Order, traits: frozenset[str]) -> Order:
    """The order with another exchange: what means nothing for that one follows it."""
    served = "server" in traits
    joins = not served and "unwaited" not in traits
    apart = "whole" not in traits and (joins or order.unit != "bucket")
    answers = order.returns if (order.returns != "none") == served else "push" if served else "none"
    return Order(
        unit=order.unit if apart else "layer",
        size=order.size if apart else None,
        depart=order.depart,
        rank="fifo" if "ordered" in traits else order.rank,
        returns=answers,
    )


def _order(order: Order, override: Override) -> Order:
    """The order after an override: what is not given stays."""
    unit, size = override.unit or order.unit, override.size
    if size is None and unit != "layer":
        size = order.size if unit == order.unit else USUAL_SIZE[unit]
    return Order(
        unit=unit,
        size=size,
        depart=override.depart or order.depart,
        rank=override.rank or order.rank,
        returns=override.returns or order.returns,
    )


def _servers(layers: Sequence[LayerPlan], origin: Mapping[str, Plan], cluster: Cluster) -> Servers:
    """The one set of shards of all served layers: what the strategies that chose them say, where they say the same."""
    served = [entry for entry in layers if is_served(entry)]
    if not served:
        return Servers()
    plans = [plan for entry in served if (plan := origin[entry.layer]).servers.count > 0]
    places = {
        (p.servers.count, p.servers.where, p.servers.shares): f"{p.strategy} wants {p.servers.count} "
        f"{p.servers.where}{' with equal shares' if p.servers.shares else ''}"
        for p in plans
    }
    if len(places) > 1:
        raise UserError(
            "overrides",
            list(dict.fromkeys(p.strategy for p in plans)),
            f"a job has one set of server shards for all its layers: {', '.join(places.values())}",
            "Give these strategies the same number of servers, the same where and the same shares",
        )
    if not places:  # by an override's exchange, beside no strategy with servers
        alone = any("one-shard" in EXCHANGE[entry.exchange].traits for entry in served)
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
