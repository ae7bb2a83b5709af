"""streaming-diloco: diloco in which fragments of the model are averaged in turn, while training goes on.

Update rule: that of diloco for each fragment in a step of its own; the average of what left after step t is taken
`delay` steps later, and mixed with what the worker has made of the fragment meanwhile
(`engine/consistency/streaming.py`). With one fragment, no delay and no mixing it is diloco, bit for bit.
Bytes: as diloco in a whole period, but with F fragments about 1/F of them at once, for which `delay` steps are time.
Memory: as diloco, and what is under way.
Source: Douillard et al. 2025 (Streaming DiLoCo), with strided fragments (section 2.2),
a delay and a mixing factor of 0.5 (2.3). Deviations: see `engine/consistency/streaming.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from engine.consistency.streaming import StreamingSettings
from engine.errors import UserError
from engine.plan.cluster import Cluster
from engine.plan.consistency import Alone
from engine.plan.description import ModelDescription
from engine.plan.plan import Plan
from engine.strategies import diloco
from engine.strategies.base import Strategy


@dataclass(frozen=True, kw_only=True)
class Options(diloco.Options):
    """Options of streaming-diloco."""

    fragments: int = 4
    """Into how many fragments the layers are divided; at most as many as there are layers."""
    pattern: Literal["strided", "sequential"] = "strided"
    """`strided`: layer i is in fragment i modulo their number; `sequential`: neighbours are together."""
    delay: int = 1
    """Steps in which training goes on while an average is under way."""
    mixing: float = 0.5
    """The share of its own parameters, from 0 to below 1, that a worker keeps when the average is taken."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimizer_state:
            raise UserError(
                "optimizer_state",
                True,
                "the optimizer's state changes while a fragment's average is under way",
                "Leave it out, or use diloco",
            )

    def consistency(self) -> Alone:
        """Average fragments with this delay. Raises UserError."""
        whole = super().consistency()
        return StreamingSettings(
            period=whole.period,
            period_epochs=whole.period_epochs,
            outer=whole.outer,
            outer_learning_rate=whole.outer_learning_rate,
            outer_momentum=whole.outer_momentum,
            fragments=self.fragments,
            delay=self.delay,
            mixing=self.mixing,
        )


def build(model: ModelDescription, cluster: Cluster, options: Options) -> Plan:
    """diloco's plan, each layer with its fragment."""
    plan = options.averaged("streaming-diloco", model, cluster)
    layers, count = plan.layers, min(options.fragments, len(plan.layers))
    fewer = f"fragments: {count} and not {options.fragments}, as the model has only so many layers."
    return replace(
        plan,
        warnings=(*plan.warnings, fewer) if count < options.fragments else plan.warnings,
        layers=tuple(
            replace(
                layer,
                fragment=index % count if options.pattern == "strided" else index * count // len(layers),
            )
            for index, layer in enumerate(layers)
        ),
        consistency=replace(options.consistency(), fragments=count),
    )


STRATEGY = Strategy(
    name="streaming-diloco",
    summary="As diloco, but fragments of the model are averaged in turn, while training goes on.",
    loses_when="the network is fast enough for whole averages, which are fresher.",
    source="Douillard et al. 2025 (Streaming DiLoCo)",
    proof="convergent",
    options=Options,
    build=build,
)
