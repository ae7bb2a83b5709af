"""What a network's data are, and how a sample comes to its forward pass."""

from __future__ import annotations

from dataclasses import dataclass

from tests.fuzz.grammar.writer import Shape, Writer
from tests.fuzz.network import Network

CLASSES = 3
INPUTS = ("vector", "image", "sequence", "words")
PACKINGS = ("tensor", "two arguments", "keywords", "tuple", "dict")
"""`tuple` and `dict`: samples of several tensors, which a data set of ours cannot have."""


@dataclass(frozen=True, kw_only=True)
class Packing:
    """How inputs reach forward."""

    arguments: str
    """Of forward, after self."""
    call: str
    """The model's call in a loss."""
    own_loss: bool
    """Whether the default loss cannot make that call."""


def input_shape(network: Network) -> tuple[Shape, int | None]:
    """(shape of a sample, number of words if it is of words)."""
    width = network.width
    return {
        "vector": ((width,), None),
        "image": ((1 + width % 3, 4, 3), None),
        "sequence": ((3, width), None),
        "words": ((3,), width + 2),
    }[network.inputs]


def packing(network: Network) -> Packing:
    """Two arguments are halves of one tensor of twice as many features; only vectors have halves."""
    several = (
        network.packing in ("tuple", "dict") and network.loss != "words"
    )  # a target for each word is enough
    if network.inputs != "vector" or not (several or network.packing in ("two arguments", "keywords")):
        return Packing(arguments="x", call="model(inputs)", own_loss=False)
    half = network.width
    call = {
        "two arguments": f"model(inputs[:, :{half}], inputs[:, {half}:])",
        "keywords": f"model(x=inputs[:, :{half}], z=inputs[:, {half}:])",
        "tuple": "model(*inputs)",
        "dict": "model(**inputs)",
    }[network.packing]
    return Packing(arguments="x, z", call=call, own_loss=True)


def write_data(w: Writer, network: Network, targets: str, positions: int) -> str:
    """The function `data`. `targets`: `classes`, `values`, or `words` at so many `positions`."""
    shape, words = input_shape(network)
    total, packed = network.samples + network.test_samples, packing(network)
    if packed.own_loss:
        w.features.add(f"inputs: {network.packing}")
    sizes = ", ".join(map(str, shape))
    lines = [f"random = torch.Generator().manual_seed({network.seed})"]
    if words is not None:
        lines.append(f"x = torch.randint(0, {words}, ({total}, {sizes}), generator=random)")
    elif packed.own_loss and network.packing in ("two arguments", "keywords"):
        lines.append(f"x = torch.randn({total}, {2 * shape[0]}, generator=random)")
    else:
        lines.append(f"x = torch.randn({total}, {sizes}, generator=random)")
    y = {
        "classes": f"torch.randint(0, {CLASSES}, ({total},), generator=random)",
        "values": f"torch.randn({total}, {CLASSES}, generator=random)",
        "words": f"torch.randint(0, {CLASSES}, ({total}, {positions}), generator=random)",
    }[targets]
    lines.append(f"y = {y}")
    kind = "torch.utils.data.TensorDataset({})"
    if targets == "words":
        w.helper("Padded", _PADDED)
        lines.append(f"y[torch.arange({positions}) > torch.arange({total})[:, None] % {positions}] = -100")
        kind = "Padded({})"
    elif packed.own_loss and network.packing in ("tuple", "dict"):
        w.helper("Several", _SEVERAL[network.packing])
        lines.append(f"z = torch.randn({total}, {sizes}, generator=random)")
        kind = "Several({})"
    values = "x, z, y" if "Several" in kind else "x, y"
    train, test = (
        kind.format(", ".join(f"{v}[{part}]" for v in values.split(", ")))
        for part in (f":{network.samples}", f"{network.samples}:")
    )
    lines.append(f"return {train}, {test}")
    return "def data():\n" + "\n".join(f"    {line}" for line in lines)


_PADDED = """
class Padded(torch.utils.data.TensorDataset):
    def target_count(self, indices):
        return int((self.tensors[1][torch.as_tensor(indices)] != -100).sum())
"""
_SEVERAL = {
    "tuple": """
class Several(torch.utils.data.TensorDataset):
    def __getitem__(self, index):
        x, z, y = super().__getitem__(index)
        return (x, z), y
""",
    "dict": """
class Several(torch.utils.data.TensorDataset):
    def __getitem__(self, index):
        x, z, y = super().__getitem__(index)
        return {"x": x, "z": z}, y
""",
}
