"""Placement: where is a layer computed?"""

from engine.catalogue import Axis, Mechanism

PLACEMENT = Axis(
    "placement",
    "Where is the layer computed?",
    (
        Mechanism(
            name="replicated",
            summary="On every worker; the workers' gradients meet in the layer's exchange.",
            implementation="engine.runtime.replica:PlanReplica",
        ),
        Mechanism(
            name="device",
            summary="On one device, beside a worker or dedicated (hybrid parallelism).",
            missing="layers on one device need activation edges, which are not built yet",
        ),
        Mechanism(
            name="stage",
            summary="In one stage of a pipeline.",
            missing="pipeline stages need activation edges, which are not built yet",
        ),
    ),
)
