"""hybrid: the first layers are replicated, the last ones are computed on one device for all workers.

Made for networks whose convolutions hold the operations and whose fully-connected layers hold the parameters: workers
run the front of the model on their shards and send the activations where it is cut; the device runs the back for each
worker's samples, returns the gradient of the activations at once, and keeps the back's parameters (papers 000,
section 2.2; Krizhevsky 2014). While it computes for one worker, another goes backward and its gradients travel; with
micro-batches a worker computes the front of the next one while one is away.

Update rule: w <- update(w, sum_i g_i) on either side. Gradients of a step are sums of losses that are divided by the
global batch, so nothing is averaged anywhere, and weight decay is applied once, where the layer is updated; the
paper's factor 1/m for the decay of the replicated part is the same statement for a decay that is added before the sum.
Bytes per step on the wire: 2 N |W_front| + 2 B |a| with a dedicated reducer and a dedicated device, where B is the
global batch and |a| the bytes of one sample's activation, or what `edge_codec` makes of them. Beside workers, the
reducer saves its worker's share of the first term and the device its worker's samples of the second. A ring moves 2
(N-1) |W_front|.
Each worker's samples pass the device as they would pass that worker: batch statistics behind the cut are kept apart for
each worker, and averaged for evaluations and in the saved model. Random numbers behind the cut (dropout) come from the
process that computes there, from one stream for all workers: they are others than a replica would draw. A dedicated
device computes on the CPU, or on the last worker's GPU: the scheduler gives devices to workers only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from engine.errors import UserError
from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.edges import edge_bytes
from engine.plan.placement_rules import cut_refusal, possible_cuts
from engine.plan.plan import DeviceParty, Edge, LayerPlan, Order, Plan, Servers
from engine.strategies.base import Strategy, uniform
from engine.strategies.options import EdgeOptions, RoundsOptions


@dataclass(frozen=True, kw_only=True)
class Options(EdgeOptions):
    """Options of hybrid."""

    cut: str = "auto"
    """The first layer that the device computes. `auto`: of those behind which no more operations are left than one
    worker has in front, so that the device keeps up, the one that moves the fewest bytes."""
    where: Literal["beside", "dedicated"] = "beside"
    """`beside`: the device computes in the last worker's process; `dedicated`: in a process of its own."""
    reducer: Literal["beside", "dedicated", "ring"] = "beside"
    """How the replicated layers' gradients meet. `beside`: on a reducer in worker 0's process; `dedicated`: on one in a
    process of its own; `ring`: they go around the workers."""


def build(model: ModelDescription, cluster: Cluster, options: Options) -> Plan:
    """Cut, place the back on the device, and exchange the front."""
    cut = _cut(model, cluster, options)
    order = [place.layer for place in model.cuts]
    back = model.layers_from(cut)
    plan = _exchange(model, cluster, options)
    layers = tuple(
        LayerPlan(layer=layer.layer, placement="device", place=0, update="worker")
        if layer.layer in back
        else layer
        for layer in plan.layers
    )
    return replace(
        plan,
        layers=layers,
        devices=(DeviceParty(beside=cluster.workers - 1 if options.where == "beside" else None),),
        edges=(
            Edge(
                source=order[order.index(cut) - 1],
                destination=cut,
                order=Order(rank=layers[0].order.rank),
                **options.crosses,
            ),
        ),
    )


def _exchange(model: ModelDescription, cluster: Cluster, options: Options) -> Plan:
    """The plan as if every layer were replicated."""
    if options.reducer == "ring":
        return RoundsOptions().plan("hybrid", model, cluster, exchange="ring-allreduce", depart="when-ready")
    return uniform(
        "hybrid",
        model,
        servers=Servers(count=1, where=options.reducer),
        exchange="central-reducer",
        order=Order(unit="layer", depart="when-ready", rank="priority", returns="push"),
    )


def _cut(model: ModelDescription, cluster: Cluster, options: Options) -> str:
    wanted, field, possible = options.cut, "strategy.options.cut", possible_cuts(model)
    if wanted != "auto":
        if refused := cut_refusal(model, wanted, field):
            remedy = f"auto, or one of: {', '.join(possible)}" if possible else "another strategy"
            raise UserError(field, wanted, refused, f"Choose {remedy}")
        return wanted
    if not possible:
        raise UserError(
            field,
            wanted,
            model.uncut or f"{model.name} can be cut in front of none of its layers",
            "Choose a strategy that replicates every layer",
        )
    whole = model.forward_flops

    def behind(cut: str) -> int:
        """Operations per sample of the back."""
        back = model.layers_from(cut)
        return sum(layer.forward_flops for layer in model.layers if layer.name in back)

    keeps_up = [cut for cut in possible if behind(cut) * cluster.workers <= whole - behind(cut)]
    return min(keeps_up or [min(possible, key=behind)], key=lambda cut: _bytes(model, cluster, cut, options))


def _bytes(model: ModelDescription, cluster: Cluster, cut: str, options: Options) -> int:
    """What a step moves with a dedicated reducer and a dedicated device."""
    back, place = model.layers_from(cut), model.cut(cut)
    assert place is not None
    front = sum(
        p.nbytes for layer in model.layers if layer.name not in back for p in layer.parameters if p.trainable
    )
    samples = cluster.workload.samples if cluster.workload is not None else cluster.workers
    edge = Edge(source="", destination=cut, **options.crosses)
    return 2 * cluster.workers * front + 2 * edge_bytes(edge, place, [samples])


STRATEGY = Strategy(
    name="hybrid",
    summary="Convolutions are replicated, fully-connected layers live on one device: activations travel, not weights.",
    loses_when="the layers behind the cut hold few parameters, or many operations: one device computes them for all.",
    source="papers 000 section 2.2",
    proof="exact",
    options=Options,
    build=build,
)
