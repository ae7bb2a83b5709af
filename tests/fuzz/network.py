"""A random network and its training as data: small, made of JSON values, and whole whatever is taken out of it.

`grammar/` turns a `Network` into the file that a user would have written; every list of blocks and extras gives a valid
one, so that a failing network can be made smaller by leaving things out.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from hashlib import sha256
from json import dumps
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Block:
    """One layer, and how it is called."""

    layer: str
    """A name of `grammar.layers.LAYERS`."""
    size: int = 3
    """Its width: features, channels, hidden units."""
    variant: int = 0
    """Which form of the layer or of the flow."""
    flow: str = "plain"
    """A name of `grammar.flows.FLOWS`."""
    when: int = 2
    """The call of forward (from 1) at which something begins or ends."""


@dataclass(frozen=True, kw_only=True)
class Extra:
    """What forward does besides calling layers."""

    kind: str
    """A name of `grammar.extras.EXTRAS`."""
    target: int = 0
    """Which of the network's weights, counted around."""
    variant: int = 0
    """Which form."""
    when: int = 2
    """The call of forward (from 1) at which it sets in."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """What the user's file holds: model, data, loss."""

    inputs: str = "vector"
    """A name of `grammar.data.INPUTS`."""
    width: int = 4
    """Features of an input."""
    packing: str = "tensor"
    """A name of `grammar.data.PACKINGS`: how a sample comes."""
    blocks: tuple[Block, ...] = ()
    extras: tuple[Extra, ...] = ()
    loss: str = "default"
    """A name of `grammar.losses.LOSSES`."""
    loss_when: int = 2
    """The call of the loss at which its second part sets in."""
    samples: int = 12
    """Of the training data."""
    test_samples: int = 4
    seed: int = 0
    """Of the data."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A network and the job that trains it."""

    network: Network
    job: dict[str, Any] = field(default_factory=dict)
    """As a job's YAML says it, but for model and data, which are the network's file."""

    @property
    def precision(self) -> str:
        found: str = self.job["training"]["precision"]
        return found

    @property
    def key(self) -> str:
        """A name that no other case has."""
        return sha256(dumps([asdict(self.network), self.job], sort_keys=True).encode()).hexdigest()[:12]
