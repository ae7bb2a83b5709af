"""What the engine may refuse, though plain PyTorch would train it: which rule, of which strategies or networks.

A refusal that is not listed here is a failure, as a wrong number is: a valid model is to be trained.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.fuzz.training import CUT, DRIFTING


@dataclass(frozen=True, kw_only=True)
class Allowed:
    """One rule that may refuse a network."""

    rule: str
    """A regular expression that its message holds."""
    strategies: tuple[str, ...] = ()
    """Of these only; empty: of any."""
    features: tuple[str, ...] = ()
    """Only networks with one of these; empty: any."""
    overridden: bool = False
    """Only jobs that give some layers other choices."""
    apart: bool = False
    """Only where the reference's workers do not agree after some step."""


_WRITES = (
    "extra: write to a weight", "extra: write that differs", "extra: escaping write",
    "extra: maximal norm of an embedding",
)  # fmt: skip
_SCALARS = ("layer: scalar parameter", "layer: custom function")
_READ_ELSEWHERE = (
    "extra: average of a weight", "extra: average in place", "extra: target network", "extra: weights read first",
    "flow: functional call", "flow: tied", "flow: vmap", "flow: without hooks", "layer: low rank",
    "loss: inner step", "loss: part by part",
)  # fmt: skip
"""What reads a parameter while the module that owns it is not called: FSDP holds a part of it then."""
_TYPES = ("layer: complex numbers", "type: double", "type: bfloat16")

ALLOWED = (
    Allowed(rule="Where workers do not wait for one another", strategies=DRIFTING, features=_WRITES),
    Allowed(rule=r"cut|pipeline\.stages", strategies=CUT),
    Allowed(rule="the global norm needs all gradients in one place", strategies=CUT),
    Allowed(
        rule="`fsdp` cannot train this model",
        strategies=("fsdp",),
        features=("loss: penalty", *_READ_ELSEWHERE),
    ),
    Allowed(
        rule="something other than the module that owns the parameter",
        strategies=("fsdp",),
        features=("layer: weight norm",),  # the older one, whose hook makes the weight anew before each call
    ),
    Allowed(rule="fully_shard wants one type", strategies=("fsdp",), features=_TYPES),
    Allowed(rule="looks at whole parameters", strategies=("fsdp",)),
    Allowed(rule="mixed torch.Tensor and DTensor", strategies=("fsdp",), features=_READ_ELSEWHERE),
    Allowed(
        rule="not supported for tensor subclasses", strategies=("fsdp",), features=("extra: escaping write",)
    ),
    Allowed(
        rule="while `fsdp` (had gathered it|held a part of it)",
        strategies=("fsdp",),
        features=(*_WRITES, *_READ_ELSEWHERE),
    ),
    Allowed(
        rule="`fsdp` keeps to what was trained when the model was built",
        strategies=("fsdp",),
        features=("extra: freeze", "extra: thaw"),
    ),
    Allowed(
        rule="under `fsdp` gradients are those of other tensors",
        strategies=("fsdp",),
        features=("hook: gradient", "hook: accumulated gradient"),
    ),
    Allowed(
        rule="workers called (the model's layers in different orders|different collectives)",
        strategies=("fsdp",),
        features=("layer: experts", "flow: branch by data"),
    ),
    Allowed(
        rule="has been replaced by another tensor", strategies=("fsdp",), features=("flow: functional call",)
    ),
    Allowed(rule="the loss calls parts of the model", strategies=("fsdp",), features=("loss: part by part",)),
    Allowed(
        rule="a parameter's gradient came twice in one backward pass",
        strategies=("ddp",),
        features=("flow: reentrant checkpoint",),
    ),
    Allowed(
        rule="and `fsdp` frees what that takes", strategies=("fsdp",), features=("loss: double backward",)
    ),
    Allowed(
        rule="fully_shard cuts parameters", strategies=("fsdp",), features=("loss: temperature", *_SCALARS)
    ),
    Allowed(rule="has no elements to train", features=("layer: scalar parameter", "extra: unused")),
    Allowed(rule="only a fully-connected layer .* has a gradient that is the product", overridden=True),
    Allowed(rule="matches (none of the|no trainable layer)", overridden=True),
    Allowed(rule="a job has one set of server shards for all its layers", overridden=True),
    Allowed(rule="sparse=False", features=("layer: sparse embedding",)),
    Allowed(rule="came in several parts.*use_reentrant=False", features=("flow: reentrant checkpoint",)),
    # Beside a loss that differentiates by inputs it trains only where it is compiled, which the plan's look leaves out.
    Allowed(rule="its forward pass or its loss fails on", features=("flow: reentrant checkpoint",)),
    Allowed(rule="was frozen when the model was built, and is to be trained", features=("extra: thaw",)),
    Allowed(rule="there is nothing to train", features=("extra: thaw",)),
    Allowed(rule="was written to in a way that autograd does not see", features=("extra: escaping write",)),
    Allowed(rule="the model or its loss writes to it, and not alike", apart=True),
    # What is recomputed has to do the same again, and what is done to activations needs a block's own call.
    Allowed(rule="Keep (its activations|the activations of this layer)", overridden=True),
)


def listed(message: str, job: dict[str, Any], features: Iterable[str], *, apart: bool = False) -> bool:
    """Whether a refusal with this message is one that this job's strategy, or a network with these features, may
    meet. `apart`: whether the reference's workers do not agree after
    some step."""
    known, name = set(features), job["strategy"]["name"]
    return any(
        re.search(allowed.rule, message, re.DOTALL) is not None
        and (not allowed.strategies or name in allowed.strategies)
        and (not allowed.features or bool(known & set(allowed.features)))
        and (not allowed.overridden or bool(job.get("overrides")))
        and (not allowed.apart or apart)
        for allowed in ALLOWED
    )
