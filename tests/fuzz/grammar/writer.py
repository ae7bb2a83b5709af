"""Writer: collects the lines of a network's file while its blocks are written one after another."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

Shape = tuple[int, ...]
"""Of one sample: (features,), (positions, features) or (channels, height, width)."""


@dataclass(frozen=True, kw_only=True)
class Weight:
    """A matrix that extras and losses may read."""

    owner: str
    """The layer, as forward names it: `self.linear1`."""
    shape: tuple[int, int]
    """(outputs, inputs)."""

    @property
    def value(self) -> str:
        return f"{self.owner}.weight"


@dataclass(frozen=True, kw_only=True)
class Part:
    """A layer that has been declared and can be called."""

    template: str
    """The call, with `{}` for its input: `self.linear1({})`."""
    into: Shape
    out: Shape
    module: str | None = None
    """The module where calling it is the whole template, as forward names it."""
    returns_tensor: bool = True
    """Whether the module itself answers one tensor."""

    def call(self, value: str) -> str:
        return self.template.format(value)


class Writer:
    """A file in the making. `shape` and `words` say what `h` holds at the end of what was written so far."""

    def __init__(self, precision: str, inputs: Shape, words: int | None) -> None:
        """`words`: inputs are so many different words, not numbers."""
        self.precision = precision
        self.shape = inputs
        self.words = words
        self.inputs = inputs
        self.input_words = words
        self.imports: set[str] = set()
        self.helpers: dict[str, str] = {}
        """Classes and functions beside the network, by name."""
        self.init: list[str] = []
        self.writes: list[str] = []
        """Of forward, first of all: writes to weights, which nobody may have read in this pass."""
        self.start: list[str] = []
        """Of forward, before the first layer."""
        self.body: list[str] = []
        self.end: list[str] = []
        """Of forward, before the head; they see `h`."""
        self.methods: list[str] = []
        self.modes: list[str] = []
        """What the network's own `train` does besides."""
        self.result = "logits"
        """What forward answers; `logits` is the head's output, and `h` what the head gets."""
        self.split = False
        """Whether what comes before the head is a method of its own, `features`."""
        self.weights: list[Weight] = []
        self.features: set[str] = set()
        self.least_pass = 1
        """Samples that a forward pass in training needs."""
        self.random = False
        """Whether forward draws random numbers."""
        self.counts = False
        """Whether forward counts its calls in training."""
        self.chance = True
        """Whether random numbers that forward draws make a difference."""
        self._numbers: dict[str, int] = {}

    def attribute(self, prefix: str) -> str:
        """A new name, as forward writes it."""
        self._numbers[prefix] = self._numbers.get(prefix, 0) + 1
        return f"self.{prefix}{self._numbers[prefix]}"

    def declare(self, prefix: str, value: str) -> str:
        """Set a new attribute in `__init__`; its name as forward writes it."""
        name = self.attribute(prefix)
        self.init.append(f"{name} = {value}")
        return name

    def buffer(self, prefix: str, value: str, *, persistent: bool = True) -> str:
        """Register a new buffer; its name as forward writes it."""
        name = self.attribute(prefix)
        more = "" if persistent else ", persistent=False"
        self.init.append(f'self.register_buffer("{name[5:]}", {value}{more})')
        return name

    def calls(self) -> str:
        """The number of this call of forward in training, from 1."""
        self.counts = True
        return "self.calls"

    def linear(self, prefix: str, outputs: int, inputs: int, more: str = "") -> str:
        """Declare a fully-connected layer whose weight others may read."""
        name = self.declare(prefix, f"nn.Linear({inputs}, {outputs}{more})")
        self.weights.append(Weight(owner=name, shape=(outputs, inputs)))
        return name

    def helper(self, name: str, source: str) -> str:
        self.helpers[name] = source.strip("\n")
        return name

    # --- shapes: `h` becomes what a layer takes, without parameters and without loss ---

    def numbers(self) -> None:
        """Words become rows of a unit matrix."""
        if self.words is not None:
            eye = self.buffer("eye", f"torch.eye({self.words})")
            self.body.append(f"h = {eye}[h]")
            self.shape, self.words = (*self.shape, self.words), None

    def vector(self) -> int:
        """`h` is (n, features) from here on."""
        self.numbers()
        if len(self.shape) > 1:
            self.body.append("h = h.flatten(1)")
            self.shape = (prod(self.shape),)
        return self.shape[0]

    def sequence(self) -> tuple[int, int]:
        """`h` is (n, positions, features) from here on."""
        self.numbers()
        if len(self.shape) == 1:
            self._fold((3, -(-self.shape[0] // 3)))
        elif len(self.shape) == 3:
            self.body.append("h = h.flatten(2)")
            self.shape = (self.shape[0], self.shape[1] * self.shape[2])
        return self.shape[0], self.shape[1]

    def image(self) -> tuple[int, int, int]:
        """`h` is (n, channels, height, width) from here on."""
        self.numbers()
        if len(self.shape) == 1:
            self._fold((1, 3, -(-self.shape[0] // 3)))
        elif len(self.shape) == 2:
            self.body.append("h = h.unsqueeze(1)")
            self.shape = (1, *self.shape)
        return self.shape[0], self.shape[1], self.shape[2]

    def _fold(self, shape: Shape) -> None:
        self.body.append(f"h = {fit('h', self.shape, shape)}")
        self.shape = shape

    def take(self, part: Part, value: str) -> None:
        """`h` becomes `value`, of the shape of the part's output."""
        self.body.append(f"h = {value}")
        self.shape = part.out


def fit(value: str, shape: Shape, wanted: Shape) -> str:
    """An expression: `value` of `shape`, padded with zeros or cut to `wanted`."""
    if shape == wanted:
        return value
    flat = value if len(shape) == 1 else f"{value}.flatten(1)"
    if more := prod(wanted) - prod(shape):
        flat = f"functional.pad({flat}, (0, {more}))"
    return flat if len(wanted) == 1 else f"{flat}.unflatten(1, {wanted})"
