"""Declared memory: the tensors that a plan has each party hold for as long as training lasts, before anything runs.

`engine/benchmarks/memory.py` shows them beside what real processes hold. Activations, what is on its way and scratch
memory are not declared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from engine.axes.codec import CODEC
from engine.axes.exchange import EXCHANGE
from engine.axes.matrices import cut_rows
from engine.catalogue import found as loaded
from engine.plan.cluster import Party, team_of
from engine.plan.consistency import drifts, trains_alone, unwaited
from engine.plan.description import DTYPE_BYTES, LayerDescription, ModelDescription
from engine.plan.encoding import Encoding
from engine.plan.hook_memory import kept_by_hook
from engine.plan.job import JobSpec
from engine.plan.plan import LayerPlan, Plan, Wrapper
from engine.plan.rounds import Span, encoded_spans
from engine.plan.units import Unit, cut
from engine.plan.updates import as_scheduled, state_bytes

PARTS = (
    "parameters",
    "gradients",
    "optimizer state",
    "server copies",
    "residuals",
    "sums and other tensors",
    "averages' copies",
    "buckets",
)
"""Residuals: what codecs keep from one message to the next, and what a shard that sends differences knows that workers
hold. Averages' copies: what workers that train alone keep from one average to the next, and what is on its way while
they go on. Buckets: DDP's copies of gradients."""


def held(plan: Plan | Wrapper, model: ModelDescription, party: Party, job: JobSpec) -> dict[str, int]:
    """Bytes of each of PARTS in `party`'s process under the job's resolved plan: its part of the model, all of it where
    layers are replicated, and its server shard's units, with what the optimizer keeps of whatever is updated there.
    fsdp, which shards all of it, is declared as if it did not."""
    workers = job.cluster.workers
    found = dict.fromkeys(PARTS, 0)
    chosen = {layer.layer: layer for layer in plan.layers} if isinstance(plan, Plan) else {}
    here: set[str] = set()
    fragments = Counter[int]()
    behind = [model.layers_from(edge.destination) for edge in plan.edges] if isinstance(plan, Plan) else []
    for layer in model.layers:
        if not _is_here(plan, party, sum(layer.name in back for back in behind)):
            continue
        here.add(layer.name)
        trained = sum(p.nbytes for p in layer.parameters if p.trainable)
        found["parameters"] += layer.parameter_bytes
        found["gradients"] += trained
        fragments[chosen[layer.name].fragment if layer.name in chosen else 0] += trained
        found["buckets"] += trained * (isinstance(plan, Wrapper) and plan.runner == "ddp")
        if layer.name not in chosen or chosen[layer.name].update == "worker":
            found["optimizer state"] += state_of_layer(job, layer)
    if not isinstance(plan, Plan):
        found["residuals"] = kept_by_hook(plan, model)
        return found
    found["averages' copies"] = _copies(plan, fragments)
    for unit in cut(plan, model):
        layer_plan, size = chosen[unit.layers[0]], unit.count * DTYPE_BYTES[unit.dtype]
        whole = [(0, unit.count)]
        if party.rank is not None and unit.layers[0] in here:
            spans = _sent_by(party.rank, layer_plan, unit, team_of(plan, layer_plan, workers))
            found["residuals"] += _kept(layer_plan.encoding, unit, spans, layer_plan.encoding.kept)
        if unit.shard is None or unit.shard != party.shard:
            continue
        # Workers ask for the last sums while the next ones are made.
        sums = 1 if layer_plan.update == "server" else 2
        found["sums and other tensors"] += sums * sum(unit.summed) * DTYPE_BYTES[unit.dtype]
        if layer_plan.update != "server":
            way = layer_plan.encoding
            found["residuals"] += 0 if unit.phases else _kept(way, unit, whole, way.kept_of_sums)
            continue
        found["server copies"] += size
        found["optimizer state"] += _state_of_unit(job, unit)
        if layer_plan.answers_differences:
            receivers = workers if drifts(plan.consistency) else 1
            beside = _beside(layer_plan.answer_encoding, unit, whole)
            found["residuals"] += receivers * (size + beside)
    return found


def offloaded(plan: Plan | Wrapper, model: ModelDescription, party: Party, job: JobSpec) -> int:
    """Bytes of the optimizer's state that `party` has in a second tier of memory."""
    if not job.optimizer.offload:
        return 0
    here = replace(job, optimizer=replace(job.optimizer, offload=False))
    without, with_it = (held(plan, model, party, each)["optimizer state"] for each in (here, job))
    return without - with_it


def copied_for_checkpoint(
    declared: Mapping[str, int], plan: Plan | Wrapper, model: ModelDescription, job: JobSpec
) -> int:
    """Bytes of the copy that worker 0, which holds what is `declared`, makes of itself and of the shard beside it for a
    checkpoint: it is in memory until that is on the disk, while training goes on. 0 where there are no checkpoints."""
    if job.checkpoint.asked is None:
        return 0
    found = sum(declared[part] for part in ("parameters", "optimizer state", "residuals"))
    if isinstance(plan, Plan) and (
        drifts(plan.consistency) or any(layer.answers_differences for layer in plan.layers)
    ):
        found += declared["server copies"]
    if isinstance(plan, Plan) and trains_alone(plan.consistency) and plan.consistency.outer_momentum:
        found += declared["gradients"]  # the outer optimizer's velocity is as large as what is trained
    return found + model.buffer_bytes


def state_of_layer(job: JobSpec, layer: LayerDescription) -> int:
    """Bytes of the optimizer's state in memory where all of the layer is updated in one place."""
    optimizer = as_scheduled(job.optimizer, job.schedule)
    trained = [p for p in layer.parameters if p.trainable]
    return sum(state_bytes(optimizer, p.name, p.shape, DTYPE_BYTES[p.dtype]) for p in trained)


def _state_of_unit(job: JobSpec, unit: Unit) -> int:
    """The same of a server's unit, each segment of which is a parameter to its optimizer."""
    optimizer = as_scheduled(job.optimizer, job.schedule)
    size = DTYPE_BYTES[unit.dtype]
    return sum(state_bytes(optimizer, s.parameter, (s.count,), size) for s in unit.segments)


def _sent_by(rank: int, layer: LayerPlan, unit: Unit, team: range) -> list[Span]:
    """The parts of the unit that worker `rank` encodes as one each, and of which it keeps what that loses."""
    exchange = EXCHANGE[layer.exchange]
    if unit.shard is not None or "unwaited" in exchange.traits:
        return [(0, unit.count)]
    if exchange.rounds is None or len(team) == 1:
        return []
    if unit.phases:
        return [(0, unit.count)]
    return encoded_spans(loaded(exchange.rounds).program(team.index(rank), len(team), unit.count))


def encoding_bytes(
    plan: Plan, model: ModelDescription, party: Party, job: JobSpec, *, in_backward: bool
) -> int:
    """Bytes that `party` holds while its codecs are at work, at the most: in backward, where gradients leave when they
    are ready, or behind it. A worker encodes one message at a time, and so does a shard beside it; what is summed in
    phases is there from the first one to the last."""
    chosen = {layer.layer: layer for layer in plan.layers}
    of_worker, of_shard, in_phases = 0.0, 0.0, 0
    for unit in cut(plan, model):
        layer, size = chosen[unit.layers[0]], DTYPE_BYTES[unit.dtype]
        if (layer.order.depart == "when-ready") != in_backward:
            continue
        if party.rank is not None:
            spans = _sent_by(party.rank, layer, unit, team_of(plan, layer, job.cluster.workers))
            longest = max((stop - start for start, stop in spans), default=0)
            of_worker = max(of_worker, CODEC[layer.encoding.codec].working * longest * size)
            in_phases += unit.count * size * bool(unit.phases)
        if unit.shard is not None and unit.shard == party.shard:
            of_shard = max(of_shard, _answering(layer) * unit.count * size)
    return round(of_worker + of_shard) + in_phases


def _answering(layer: LayerPlan) -> float:
    """Numbers for each element that a shard holds while it encodes an answer."""
    if layer.update != "server":
        return CODEC[layer.encoding.codec].working
    return CODEC[layer.answer_encoding.codec].working if layer.answers_differences else 0.0


def _copies(plan: Plan, fragments: Counter[int]) -> int:
    """Bytes of copies of its trainable parameters, which are so many in each fragment, on a worker that trains alone:
    as they were at the last average, the outer optimizer's velocity, the optimizer's state that travels, the fragments
    that are on their way at a time while training goes on, and where nobody waits the sum of what others have sent."""
    if not trains_alone(plan.consistency):
        return 0
    chosen = plan.consistency
    copies = 1 + bool(chosen.outer_momentum) + len(chosen.state) + unwaited(chosen)
    on_their_way = -(-(chosen.delay or 0) * (chosen.fragments or 1) // chosen.exchange_period)
    return copies * fragments.total() + sum(size for _, size in fragments.most_common(on_their_way))


def _kept(way: Encoding, unit: Unit, spans: list[Span], numbers: int) -> int:
    """Bytes that a party which encodes these parts of the unit keeps: so many numbers of each element, and beside them
    what it has of each part."""
    residual = numbers * unit.count * _number_bytes(unit) if spans else 0
    return residual + _beside(way, unit, spans)


def _beside(way: Encoding, unit: Unit, spans: list[Span]) -> int:
    """Bytes of what a codec keeps of the matrices in these parts."""
    numbers = (CODEC[way.codec].beside(way.options, [*cut_rows(unit.rows, *span)]) for span in spans)
    return sum(numbers) * _number_bytes(unit)


def _number_bytes(unit: Unit) -> int:
    """What is kept has the unit's own type, or float32 where that is less."""
    return max(4, DTYPE_BYTES[unit.dtype])


def _is_here(plan: Plan | Wrapper, party: Party, part: int) -> bool:
    """Whether the party computes part `part` of the model, 0 where it is not cut."""
    if isinstance(plan, Plan) and plan.pipeline is not None:
        return party.rank is not None and party.rank % plan.pipeline.stages == part
    return party.device is not None if part else party.rank is not None
