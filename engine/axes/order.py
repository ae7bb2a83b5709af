"""Order: in which units does a layer travel, when, in what rank, and how does the answer return?

The four parts are chosen independently; P3 is slices, when ready, priority, push.
"""

from engine.catalogue import Axis, Mechanism

_UNITS = "engine.plan.units:cut"
_QUEUE = "engine.order.keys:"
_SERVER = "engine.exchange.server:ServerExchange"

UNIT = Axis(
    "order.unit",
    "In which units does the layer travel?",
    (
        Mechanism(
            name="layer",
            summary="Whole: one unit per layer, or one per shard where the exchange splits large layers.",
            implementation=_UNITS,
        ),
        Mechanism(name="slice", summary="In slices of at most `size` elements.", implementation=_UNITS),
        Mechanism(
            name="bucket",
            summary="With its neighbours, in buckets of about `size` bytes.",
            implementation=_UNITS,
        ),
    ),
)
DEPART = Axis(
    "order.depart",
    "When does a unit leave?",
    (
        Mechanism(
            name="after-backward",
            summary="When the whole backward pass has ended.",
            implementation="engine.order.departure:AfterBackward",
        ),
        Mechanism(
            name="when-ready",
            summary="As soon as its gradient is there (wait-free backpropagation).",
            implementation="engine.order.departure:WhenReady",
        ),
    ),
)
RANK = Axis(
    "order.rank",
    "Which unit goes first where several wait?",
    (
        Mechanism(name="fifo", summary="The one that came first.", implementation=_QUEUE + "fifo"),
        Mechanism(
            name="priority",
            summary="The one that the next forward pass needs first.",
            implementation=_QUEUE + "by_forward_position",
        ),
    ),
)
RETURNS = Axis(
    "order.returns",
    "How does a server's answer return?",
    (
        Mechanism(
            name="none", summary="Nothing returns: the exchange has no server.", implementation=_SERVER
        ),
        Mechanism(
            name="notify-pull",
            summary="The server notifies, the worker pulls when every part of the layer is ready (KVStore).",
            implementation=_SERVER,
        ),
        Mechanism(
            name="deferred-pull",
            summary="The worker pulls everything when its next forward pass begins (TensorFlow).",
            implementation=_SERVER,
        ),
        Mechanism(
            name="push",
            summary="The server sends each unit to every worker as soon as it is updated (P3).",
            implementation=_SERVER,
        ),
    ),
)
