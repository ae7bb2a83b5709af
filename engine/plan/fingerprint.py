"""Whether two jobs trained one model: what is stored of each model, in one hash.

A name or an entry point does not say it: the file behind an entry point may have been edited between two jobs.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """Equal ones are equal models, as far as their layers and parameters say it."""

    sha256: str
    """Of every layer and parameter: names, classes, shapes and types, in forward order."""
    parameters: int
    """Elements of all parameters."""


def fingerprint(description: Mapping[str, Any] | None) -> Fingerprint | None:
    """Of a stored description, which another version may have written; None where it says nothing of layers. FLOPs and
    the like are left out: another version may count them in another way for the same model."""
    layers = (description or {}).get("layers")
    if not layers:
        return None
    parameters = [parameter for layer in layers for parameter in layer.get("parameters", ())]
    keys = [
        [
            layer.get("name"),
            layer.get("kind"),
            [
                [one.get("name"), list(one["shape"]), one.get("dtype"), one.get("trainable", True)]
                for one in layer.get("parameters", ())
            ],
        ]
        for layer in sorted(layers, key=lambda layer: layer.get("index", 0))
    ]
    text = json.dumps(keys, separators=(",", ":"))
    return Fingerprint(
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        parameters=sum(math.prod(one["shape"]) for one in parameters),
    )


def another_model(ours: Fingerprint | None, theirs: Fingerprint | None) -> str | None:
    """`the model is another one (1,210 parameters and 4,506,122)`; None where it is the same, or nobody knows."""
    if ours is None or theirs is None or ours.sha256 == theirs.sha256:
        return None
    if ours.parameters == theirs.parameters:
        counts = f"both have {ours.parameters:,} parameters, in other layers or shapes"
    else:
        counts = f"{ours.parameters:,} parameters and {theirs.parameters:,}"
    return f"the model is another one ({counts})"
