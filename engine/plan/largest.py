"""The largest batch in a given memory: what is asked for each way to treat activations, and what is answered. No torch
here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from engine.axes.memory import ACTIVATIONS
from engine.errors import UserError
from engine.plan.budget import LayerChoice
from engine.plan.job import JobSpec
from engine.plan.plan import LayerPlan, Plan
from engine.plan.units_of_measure import LARGEST, format_bytes, format_enough

AS_PLANNED = "as planned"
BUDGET = "budget"
"""What `memory: {budget: ...}` chooses, of all layers."""
CUT = ("LSTM", "GRU", "RNN")
"""Classes of layers that are cut into pieces of time."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What the process that predicts answers of one way."""

    samples: int
    """Of one pass, at the most; 0 where one does not fit."""
    peak: int
    """Bytes of the model's step then; where one sample does not fit, of one."""
    over: int | None
    """Bytes with one sample more. Null where nobody counts more."""
    when: str
    """The part of the step that is over then: `forward`, `backward`, `again` (a second forward), `update`, or `first`:
    one of the first two steps, in which mechanisms hold more."""
    layer: str | None
    """The layer at work then, where it is known."""
    slow_down: float | None
    """How much longer a pass of so many samples takes than with all activations kept, as a part of that: 0.3 is 30 %.
    Null where nobody predicts it."""
    rates: str
    """What the times are made from."""
    layers: tuple[LayerChoice, ...] = ()
    """Of a mixture: what was chosen for each layer."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """What passes of so many samples hold and take, one way."""

    samples: int
    peak: int
    """Bytes of the model's step, also of the first ones."""
    pass_ns: int | None
    """Of its blocks, forward and backward. Null where nobody predicts it."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """The largest batch where activations are treated one way."""

    way: str
    """As the mechanism is called; `as planned`, if the job says something else of some layers."""
    samples: int
    """Of one pass, at the most."""
    global_batch: int
    """Of a step over all workers, with passes of so many samples."""
    peak: int
    """The predicted peak of a worker then, in bytes; where not one sample fits, of one."""
    slow_down: float | None
    """How much longer a pass takes than with all activations kept, as a part of that: 0.3 is 30 %. Null where nobody
    predicts it."""
    limit: str
    """What one sample more would go beyond, and where."""
    refused: str = ""
    """Why it cannot be had; empty where it can."""
    layers: dict[str, int] = field(default_factory=dict)
    """Of what a budget chooses: how many layers are treated in each way. Empty elsewhere."""

    @property
    def name(self) -> str:
        """With how many layers are treated how."""
        mixed = ", ".join(f"{count} {way}" for way, count in self.layers.items())
        return f"{self.way} ({mixed})" if mixed else self.way


@dataclass(frozen=True, kw_only=True)
class LargestBatch:
    """The largest batch of a job in a given memory, for each way to treat activations."""

    memory: int
    """Bytes of a worker."""
    beside: int
    """Of these, what it holds beside the model's step."""
    rates: str
    """What the times are made from."""
    ways: list[Way]
    """Without optimization first."""
    text: str
    """The same as a table in plain text."""


def ways(plan: Plan) -> Iterator[tuple[str, Plan]]:
    """The plan under each way, by name: as it is where it treats some layers otherwise, then each mechanism for all
    layers; for one that cuts sequences, what computes again does so for the others."""
    kept = [row for row in ACTIVATIONS if "as-is" in row.traits]
    if any(layer.activations not in {row.name for row in kept} for layer in plan.layers):
        yield AS_PLANNED, plan
    for row in ACTIVATIONS:
        if "sequences" not in row.traits:
            yield row.name, _everywhere(plan, dict.fromkeys((x.layer for x in plan.layers), row.name))


def cutting(plan: Plan, kinds: Mapping[str, str]) -> Iterator[tuple[str, Plan]]:
    """The same with recurrent layers cut into pieces of time, where there are some. `kinds`: classes by layer."""
    if not any(kinds.get(layer.layer) in CUT for layer in plan.layers):
        return
    for row in ACTIVATIONS:
        if "sequences" in row.traits:
            chosen = {x.layer: row.name if kinds.get(x.layer) in CUT else "recompute" for x in plan.layers}
            yield f"{row.name}, recompute", _everywhere(plan, chosen)


def _everywhere(plan: Plan, chosen: Mapping[str, str]) -> Plan:
    def treated(layer: LayerPlan) -> LayerPlan:
        return replace(layer, activations=chosen[layer.layer], activation_options={})

    return replace(plan, layers=tuple(treated(layer) for layer in plan.layers))


def most_samples(job: JobSpec) -> int:
    """Of one pass, of which the step's are counted."""
    return LARGEST // (job.cluster.workers * job.training.micro_batches)


def way_of(name: str, found: Found, job: JobSpec, beside: int, memory: int) -> Way:
    """As people read it."""
    each = job.cluster.workers * job.training.micro_batches
    at = f" at {found.layer}" if found.layer else ""
    moment = {"again": "a second forward", "update": "the update", "first": "the first two steps"}
    limit = "no larger batch is counted"
    if found.over is not None:
        more = format_bytes(found.over + beside - memory)
        limit = f"{found.samples + 1} take {more} more, in {moment.get(found.when, found.when)}{at}"
    return Way(
        way=name,
        samples=found.samples,
        global_batch=found.samples * each,
        peak=found.peak + beside,
        slow_down=found.slow_down,
        limit=limit,
        layers=dict(Counter(layer.activations for layer in found.layers)),
    )


def refused(name: str, error: UserError) -> Way:
    """A way that cannot be had."""
    why = f"{error.field}: {error.rule}" if error.field else error.rule
    return Way(way=name, samples=0, global_batch=0, peak=0, slow_down=None, limit="", refused=why)


def answered(job: JobSpec, memory: int, beside: int, rates: str, found: list[Way]) -> LargestBatch:
    """All ways. Raises UserError where one sample fits under none of them."""
    had = [way for way in found if not way.refused]
    if not any(way.samples for way in had):
        least = min(had, key=lambda way: way.peak)
        raise UserError(
            "memory",
            format_bytes(memory),
            f"one sample alone takes {format_enough(least.peak)} at the least ({least.peak} bytes), with {least.way}",
            "Give more, or make the model smaller",
        )
    answer = LargestBatch(memory=memory, beside=beside, rates=rates, ways=found, text="")
    return replace(answer, text=_text(answer, job))


def _text(found: LargestBatch, job: JobSpec) -> str:
    head = ("activations", "samples of a pass", "global batch", "predicted peak", "slow-down", "limit")
    rows = [
        (
            way.name,
            "-" if way.refused else str(way.samples),
            "-" if way.refused else str(way.global_batch),
            "-" if way.refused else format_bytes(way.peak),
            slowed(way.slow_down),
            way.refused or way.limit,
        )
        for way in found.ways
    ]
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    ]
    job_is = f"workers: {job.cluster.workers}, passes of a step: {job.training.micro_batches}"
    return "\n".join(
        [*lines, "", f"a worker's memory: {format_bytes(found.memory)}, {job_is}; times: {found.rates}"]
    )


def slowed(part: float | None) -> str:
    """A slow-down as people read it."""
    return "-" if part is None else f"{100 * part:.0f} %"


@dataclass(frozen=True, kw_only=True)
class Line:
    """Of one way: what each batch takes, by rising memory."""

    way: str
    memory: list[int]
    """Bytes of a worker, in which the batch beside it is the largest of this way, or nearly: it is the predicted peak
    with that batch."""
    samples: list[int]
    """Of one pass."""
    samples_per_s: list[float | None]
    """Of one worker while it computes, by the times of its blocks. Null where nobody predicts it."""


@dataclass(frozen=True, kw_only=True)
class LargestCurve:
    """The largest batch over a worker's memory, and how fast it is trained, for each way to treat activations."""

    memory: int
    """Bytes of a worker, up to which it goes."""
    rates: str
    """What the times are made from."""
    lines: list[Line]


PARTS = 5
"""Points of a line."""


def looked_at(samples: int) -> list[int]:
    """The batches of a way whose largest is this."""
    return sorted({max(1, round(samples * part / PARTS)) for part in range(1, PARTS + 1)})


def line_of(way: Way, points: Iterable[Point], beside: int) -> Line:
    """As it is drawn."""
    found = sorted(points, key=lambda point: point.peak)
    return Line(
        way=way.name,
        memory=[point.peak + beside for point in found],
        samples=[point.samples for point in found],
        samples_per_s=[1e9 * point.samples / point.pass_ns if point.pass_ns else None for point in found],
    )
