"""Overrides: what a job wants done differently for some of its layers. `compose.py` applies them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

from engine.axes.codec import CODEC
from engine.axes.exchange import EXCHANGE
from engine.axes.memory import ACTIVATIONS
from engine.axes.order import DEPART, RANK, RETURNS, UNIT
from engine.catalogue import STRICT
from engine.errors import UserError
from engine.plan.description import LayerDescription, ModelDescription
from engine.plan.encoding import encoding
from engine.plan.mechanism_options import options_of

KINDS: dict[str, tuple[str, ...]] = {
    "linear": ("*Linear", "Bilinear"),
    "convolution": ("*Conv[123]d", "*ConvTranspose[123]d"),
    "norm": ("*Norm", "*Norm[123]d"),
    "embedding": ("*Embedding", "EmbeddingBag"),
    "recurrent": ("*LSTM", "*GRU", "*RNN", "*Cell"),
    "attention": ("*Attention",),
}
"""The kinds that overrides know, by patterns of their modules' classes; any other kind is such a pattern itself."""
_AXES = {
    "exchange": EXCHANGE, "codec": CODEC, "answers": CODEC, "unit": UNIT, "depart": DEPART, "rank": RANK,
    "returns": RETURNS, "activations": ACTIVATIONS,
}  # fmt: skip
VALUES = (
    "exchange",
    "update",
    "codec",
    "codec_options",
    "answers",
    "answer_options",
    "entropy_coding",
    "unit",
    "size",
    "depart",
    "rank",
    "returns",
    "activations",
    "activation_options",
    "fragment",
)
"""The fields of an override that are choices for its layers, beside `strategy`."""
_SHOWN = 12
"""Names that an error lists at most."""


@dataclass(frozen=True, kw_only=True)
class Override:
    """Other choices for some layers: those that match in name, kind and size. They get another strategy's choices, or
    single values, or both: the values then change what the strategy chose. What is left out stays as it was."""

    __pydantic_config__ = STRICT

    layers: str = "*"
    """Layers by name, a pattern as in file names: `fc6`, `conv1*`."""
    kind: str | None = None
    """Layers by kind: `linear`, `convolution`, `norm`, `embedding`, `recurrent`, `attention`, or a pattern of the
    module's class such as `Conv2d`. Null: any."""
    least_parameters: int | None = None
    """Only layers with at least so many trainable elements. Null: no limit."""
    most_parameters: int | None = None
    """Only layers with at most so many trainable elements. Null: no limit."""
    strategy: str | None = None
    """The strategy whose choices these layers get. Null: they keep those that they have."""
    options: dict[str, Any] = field(default_factory=dict)
    """That strategy's own options; those left out keep its defaults."""
    exchange: str | None = None
    """How the workers' contributions meet. What the order cannot mean for another exchange follows it: a server's
    answer is pushed, buckets become layers on a server and between peers, factors travel as layers, native collectives
    are first come, first served, and without a server there are no answers to encode."""
    update: Literal["auto", "worker", "server"] | None = None
    """Where the optimizer runs."""
    codec: str | None = None
    """What travels."""
    codec_options: dict[str, Any] | None = None
    """The codec's own options. Those left out stay as they were; where the codec changes, they get its defaults."""
    answers: str | None = None
    """As what updated parameters return from a server: what a codec that rounds makes of what they have moved by."""
    answer_options: dict[str, Any] | None = None
    """The own options of that codec. Those left out stay as they were; where the codec changes, they get its
    defaults."""
    entropy_coding: bool | None = None
    """Whether messages say in Golomb-Rice code which elements they have, where that is shorter: of codecs that send
    some elements only. Null: as before; another codec without it has none."""
    unit: str | None = None
    """In which units: `layer`, `slice` or `bucket`."""
    size: int | None = None
    """Elements per slice, or bytes per bucket. Null: as before; where the unit changes, 50,000 elements or 4 MiB."""
    depart: str | None = None
    """When a unit leaves: `after-backward` or `when-ready`."""
    rank: str | None = None
    """Which goes first: `fifo` or `priority`."""
    returns: str | None = None
    """How a server's answer returns: `notify-pull`, `deferred-pull` or `push`; `none` without a server."""
    activations: str | None = None
    """What happens to the layers' activations between forward and backward."""
    activation_options: dict[str, Any] | None = None
    """The own options of what happens to them. Those left out stay as they were; where that changes, they get its
    defaults."""
    fragment: int | None = None
    """With which of the job's fragments they are averaged, 0 first: where fragments are averaged in turn
    (`streaming-diloco`)."""

    def __post_init__(self) -> None:
        for name, axis in _AXES.items():
            if (value := getattr(self, name)) is not None:
                axis.require(value, name)
        if self.codec is not None:
            encoding(self.codec, self.codec_options)
        if self.answers is not None:
            encoding(self.answers, self.answer_options, field="answer_options")
        if self.activations is not None:
            options_of(ACTIVATIONS[self.activations], self.activation_options, "activation_options")
        if self.strategy is None and self.options:
            raise UserError("options", self.options, "they belong to no strategy", "Name the strategy, too")
        for name in ("least_parameters", "most_parameters"):
            if (limit := getattr(self, name)) is not None and limit < 0:
                raise UserError(name, limit, "must not be negative", "Leave it out for no limit")
        if self.fragment is not None and self.fragment < 0:
            raise UserError(
                "fragment", self.fragment, "must not be negative", "Fragments are numbered from 0"
            )
        if self.strategy is None and not self.values:
            raise UserError(
                "", self.which, "changes nothing", f"Give a strategy, or one of {', '.join(VALUES)}"
            )

    @property
    def values(self) -> dict[str, Any]:
        """The choices that it gives itself, by field."""
        return {name: value for name in VALUES if (value := getattr(self, name)) is not None}

    @property
    def which(self) -> str:
        """Its layers, in one phrase."""
        parts = [f"{self.kind} layers" if self.kind else "layers"]
        if self.layers != "*":
            parts.append(f"named {self.layers}")
        if self.least_parameters is not None:
            parts.append(f"of at least {self.least_parameters:,} parameters")
        if self.most_parameters is not None:
            parts.append(f"of at most {self.most_parameters:,} parameters")
        return " ".join(parts if len(parts) > 1 or self.kind else ["all layers"])

    @property
    def what(self) -> str:
        """What they get, in one phrase."""
        as_before = [] if self.strategy is None else [f"as {self.strategy}"]
        return ", ".join([*as_before, *(f"{name} {_phrase(value)}" for name, value in self.values.items())])


def _phrase(value: Any) -> str:
    if isinstance(value, dict):
        return " and ".join(f"{name} {one}" for name, one in value.items()) or "as they are by default"
    return str(value)


def matching(override: Override, model: ModelDescription, where: str) -> tuple[str, ...]:
    """The names of the trainable layers that it means. Raises UserError at the condition (below the field `where`)
    that leaves none."""
    found = [layer for layer in model.layers if layer.trainable_count]
    passed = [layer for layer in found if fnmatchcase(layer.name, override.layers)]
    if not passed:
        known = named(layer.name or "'' (the root)" for layer in found)
        raise UserError(
            f"{where}.layers",
            override.layers,
            f"matches no trainable layer of {model.name}",
            f"Use * for any. Known: {known}",
        )
    found, kind = passed, override.kind
    if kind is not None:
        patterns = KINDS.get(kind, (kind,))
        passed = [x for x in found if any(fnmatchcase(x.kind, pattern) for pattern in patterns)]
        if not passed:
            known = ", ".join(sorted({layer.kind for layer in found}))
            raise UserError(
                f"{where}.kind",
                kind,
                f"matches none of {_the(override, found)}",
                f"Their kinds: {known}. Known besides classes: {', '.join(KINDS)}",
            )
    sizes = [layer.trainable_count for layer in passed]
    least, most = override.least_parameters, override.most_parameters
    if least is not None and max(sizes) < least:
        raise UserError(
            f"{where}.least_parameters",
            least,
            f"matches none of {_the(override, passed)}: the largest has {max(sizes):,}",
            "Use a lower limit",
        )
    passed = [layer for layer in passed if least is None or layer.trainable_count >= least]
    sizes = [layer.trainable_count for layer in passed]
    if most is not None and min(sizes) > most:
        raise UserError(
            f"{where}.most_parameters",
            most,
            f"matches none of {_the(override, passed)}: the smallest has {min(sizes):,}",
            "Use a higher limit",
        )
    return tuple(layer.name for layer in passed if most is None or layer.trainable_count <= most)


def _the(override: Override, layers: Sequence[LayerDescription]) -> str:
    """The layers that passed the conditions so far."""
    many = f"the {len(layers)} layers" if len(layers) > 1 else "the one layer"
    return many if override.layers == "*" else f"{many} named {override.layers}"


def named(layers: Iterable[str], most: int = _SHOWN) -> str:
    """Layers by name, in one phrase: at most so many."""
    every = [name or "(root)" for name in layers]
    left = len(every) - most
    return ", ".join(every[:most]) + (f" and {left} more" if left > 0 else "")
