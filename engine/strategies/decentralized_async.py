"""decentralized-async: no server. Every worker sends sparse updates to all others, which add them when they come.

Update rule: `engine/consistency/own_pace.py` over `engine/exchange/peers.py`, with the codec `threshold`: each element
of which enough has come together moves by plus or minus one threshold, and the rest is kept. Places are entropy-coded.
Bytes: every worker sends n - 1 messages of each layer in a step, each about 11 bits for an element that is sent where
0.4 % of them are (with `entropy_coding: false` 17): for 14.6 million parameters 0.07 MB to each worker, where float32
takes 58 MB. A step's bytes follow from its values; the plan declares the most, a 16th of a gradient for each message.
Loses where many workers are equally fast and near: all updates but its own are late, and every one goes to everybody.
Source: papers 001 (decentralized asynchronous SGD), after Strom 2015; its hyper-parameters are the threshold and
whether to use entropy coding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from engine.consistency.own_pace import OwnPaceSettings
from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.plan import Order, Plan
from engine.strategies.base import Strategy, uniform
from engine.strategies.options import CodecOptions


@dataclass(frozen=True, kw_only=True)
class Options(CodecOptions):
    """What travels, and in which rank."""

    codec: str = "threshold"
    """What travels of what a worker has changed in a step: `threshold` (each element of which enough has come together
    moves by one threshold), or any codec that averages take."""
    entropy_coding: bool = True
    """Whether messages say in Golomb-Rice code which elements they have, where that is shorter. Without effect on a
    codec that sends every element."""
    rank: Literal["priority", "fifo"] = "priority"
    """`priority`: what the next forward pass needs first goes first; `fifo`: first come, first served."""

    CODED_WHERE_IT_CAN_BE: ClassVar[bool] = True
    USUAL: ClassVar[Mapping[str, Mapping[str, Any]]] = {"threshold": {"threshold": 0.001}}
    """Of an update, with the learning rate in it."""


def build(model: ModelDescription, cluster: Cluster, options: Options) -> Plan:
    """Whole layers, as soon as each is updated."""
    plan = uniform(
        "decentralized-async",
        model,
        exchange="peers",
        update="worker",
        **options.travels,
        order=Order(unit="layer", depart="when-ready", rank=options.rank),
    )
    return replace(plan, consistency=OwnPaceSettings())


STRATEGY = Strategy(
    name="decentralized-async",
    summary="No server: every worker sends sparse updates to all others, which add them when they come.",
    loses_when="many workers are near and equally fast: every update goes to everybody, and all but its own are late.",
    source="papers 001 (decentralized asynchronous SGD), after Strom 2015",
    proof="convergent",
    options=Options,
    build=build,
)
