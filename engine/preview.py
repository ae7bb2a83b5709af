"""A preview: a plan as a table that people read. One row per layer, with what follows from its choices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from engine.axes.memory import ACTIVATIONS
from engine.plan.columns import aligned
from engine.plan.consistency import averages
from engine.plan.description import ModelDescription
from engine.plan.edges import edge_bytes
from engine.plan.flow import derive
from engine.plan.inputs import Input
from engine.plan.job import JobSpec
from engine.plan.mechanism_options import changed
from engine.plan.overrides import named
from engine.plan.plan import LayerPlan, Plan, Wrapper
from engine.plan.row import Row
from engine.plan.traffic import spread_over_period
from engine.plan.units import cut
from engine.plan.units_of_measure import format_bytes
from engine.simulate.declared import wire_bytes_by_layer

_NAMED = 6
"""Layers that a note names at most."""
MOST_MESSAGES = 1_000_000
"""Of one step, of units that are alike only one's: to play out so many takes some twenty seconds."""


def rows(
    plan: Plan | Wrapper,
    model: ModelDescription,
    job: JobSpec,
    *,
    most: int | None = None,
    check: Callable[[], None] = lambda: None,
) -> list[Row]:
    """The table of a resolved plan, in forward order. Empty for a peer. Raises UserError where more than `most`
    messages would have to be played out for it, which takes minutes with many workers and many layers; with `most`,
    `check()` is called now and then meanwhile, and may raise."""
    if isinstance(plan, Wrapper):
        return []
    described = {layer.name: layer for layer in model.layers}
    wire = wire_bytes_by_layer(plan, model, job.cluster.workers, job.network.hosts, most=most, check=check)
    why = {} if plan.memory is None else {choice.layer: choice.why for choice in plan.memory.layers}
    units = Counter(layer for unit in cut(plan, model) for layer in set(unit.layers))
    found = []
    for entry in plan.layers:
        layer, flow = described[entry.layer], derive(entry, job, plan.consistency)
        found.append(
            Row(
                position=layer.index,
                layer=entry.layer,
                kind=layer.kind,
                parameters=layer.trainable_count,
                placement=entry.placement,
                exchange=entry.exchange,
                codec=_codec(entry),
                activations=_activations(entry),
                activations_why=why.get(entry.layer, ""),
                order=_order(entry),
                units=units[entry.layer],
                payload=flow.payload,
                answer=flow.answer,
                update=flow.update,
                barrier=flow.barrier,
                waits=layer.waits if entry.exchanges else "",
                wire_exact=not entry.exchanges or entry.exact,
                wire_bytes=wire[entry.layer],
            )
        )
    return sorted(found, key=lambda row: row.position)


def _codec(layer: LayerPlan) -> str:
    back = f"; answers {layer.answer_encoding.text}" if layer.answers_differences else ""
    return layer.encoding.text + back


def _activations(layer: LayerPlan) -> str:
    stay = "as-is" in ACTIVATIONS[layer.activations].traits
    return "" if stay else changed(layer.activations, layer.memory)


def _bytes(count: int, *, exact: bool) -> str:
    return format_bytes(count) if exact else f"at most {format_bytes(count)}"


def _order(layer: LayerPlan) -> str:
    if not layer.exchanges:
        return "-"
    order = layer.order
    unit = {"layer": "layers", "slice": f"slices of {order.size}", "bucket": f"buckets of {order.size} B"}[
        order.unit
    ]
    back = "" if order.returns == "none" else f", {order.returns}"
    return f"{unit}, {order.depart}, {order.rank}{back}"


def text(
    plan: Plan | Wrapper, model: ModelDescription, job: JobSpec, found: Sequence[Row] | None = None
) -> str:
    """The table in plain text, with the totals and the warnings below it. `found`: what `rows` answers, from who has
    asked it already: a plan may have tens of thousands of units."""
    prepared = None if job.input == Input() else f"data: prepared {job.input.text}"
    label = list(filter(None, (job.rehearsed, job.slowed, prepared)))
    if isinstance(plan, Wrapper):
        size = format_bytes(plan.bucket_bytes)
        pieces = f"buckets of {size}" if plan.runner == "ddp" else f"groups of at least {size}"
        if plan.hook is not None:
            pieces += f", summed by PyTorch's hook {plan.hook.name}"
        return "\n".join([f"{plan.strategy}: run by PyTorch's own {plan.runner}, {pieces}", *label])
    table = rows(plan, model, job) if found is None else found
    moved = any(r.activations for r in table)
    head = (
        "layer",
        "kind",
        "parameters",
        "exchange",
        "codec",
        *(["activations"] if moved else []),
        "order",
        "units",
        "update",
        "barrier",
        "wire/average" if averages(plan.consistency) else "wire/step",
    )
    body = [
        (
            r.layer, r.kind, f"{r.parameters:,}", r.exchange if r.placement != "device" else "on device",
            r.codec, *([r.activations or "-"] if moved else []), r.order, str(r.units),
            f"{r.answer} from {r.update}" if r.update == "server" else r.update, r.barrier,
            _bytes(r.wire_bytes, exact=r.wire_exact),
        )
        for r in table
    ]  # fmt: skip
    lines = aligned([head, *body])
    total, exact = sum(r.wire_bytes for r in table), all(r.wire_exact for r in table)
    often = f"{_bytes(total, exact=exact)} on the wire per step"
    if averages(plan.consistency):
        mean = _bytes(spread_over_period(plan, total), exact=exact)
        period = plan.consistency.exchange_period
        often = f"{_bytes(total, exact=exact)} on the wire per average, every {period} steps: {mean} per step"
    lines += ["", f"{plan.strategy}: {often}"]
    titles = {layer.name: layer.title for layer in model.layers}
    if plan.pipeline is not None:
        firsts = [plan.layers[0].layer, *(edge.destination for edge in plan.edges)]
        lines += [f"stage {k} begins with {titles[first]}" for k, first in enumerate(firsts)]
    for edge in plan.edges:
        if (place := model.cut(edge.destination)) is not None:
            size, rounds = format_bytes(edge_bytes(edge, place, [1])), "lossless" not in edge.encoding.traits
            ends = f"{titles[edge.source]} -> {titles[edge.destination]}"
            lines.append(
                f"{ends}: {size} per sample{f' as {edge.encoding.text}' if rounds else ''}, and as many back"
            )
    said = [*label, *notes(plan, model, job, table), *(f"warning: {warning}" for warning in plan.warnings)]
    return "\n".join(lines + said)


def notes(
    plan: Plan | Wrapper, model: ModelDescription, job: JobSpec, found: Sequence[Row] | None = None
) -> list[str]:
    """Which of the job's overrides set which layers of the plan, each in its place, why what was left to us is as it
    is, of which layers bytes are a limit, and which are waited for before they are read: a sentence each. `found`: as
    `text` takes it."""
    said: list[str] = []
    titles = {layer.name: layer.title for layer in model.layers}
    for number, override in enumerate(job.overrides):
        layers = [titles[entry.layer] for entry in plan.layers if number in entry.overrides]
        which = named(layers, _NAMED) or "none left"
        said.append(f"overrides.{number}: {override.which} [{which}]: {override.what}")
    if isinstance(plan, Plan):
        said += plan.reasons
        said += _why_moved(plan, titles)
    if varying := [titles[e.layer] for e in plan.layers if e.exchanges and not e.exact]:
        said.append(
            f"{named(varying, _NAMED)}: messages differ in length, and bytes are the most that they have"
        )
    waiting: dict[str, list[str]] = {}
    for row in rows(plan, model, job) if found is None else found:
        waiting.setdefault(row.waits, []).append(titles[row.layer])
    waiting.pop("", None)
    return said + [f"{named(layers, _NAMED)}: waited for {when}" for when, layers in waiting.items()]


def _why_moved(plan: Plan, titles: Mapping[str, str]) -> Iterator[str]:
    """Why a budget of memory does not keep what it does not: a sentence for all layers of a block."""
    found: dict[tuple[str, str], list[str]] = {}
    for choice in plan.memory.layers if plan.memory is not None else ():
        if "as-is" not in ACTIVATIONS[choice.activations].traits:
            found.setdefault((choice.activations, choice.why), []).append(titles[choice.layer])
    for (activations, why), layers in found.items():
        yield f"{named(layers, _NAMED)}: {activations} by memory.budget: {why}"
