"""Placement: where is a layer computed?"""

from engine.catalogue import Axis, Mechanism

PLACEMENT = Axis(
    "placement",
    "Where is the layer computed?",
    (
        Mechanism(
            name="replicated",
            summary="On every worker; the workers' gradients meet in the layer's exchange.",
            implementation="engine.replica.by_plan:PlanReplica",
        ),
        Mechanism(
            name="device",
            summary="On one device, beside a worker or dedicated (hybrid parallelism).",
            implementation="engine.placement.device:Back",
        ),
        Mechanism(
            name="stage",
            summary="In one stage of a pipeline.",
            implementation="engine.placement.stage:StagePasses",
        ),
    ),
)
