"""A model of somebody's own, in two files, for tests that begin as its author would."""

from __future__ import annotations

from pathlib import Path


def write_model(folder: Path) -> tuple[str, str]:
    """A folder with both files; the entry points of the model and of its data, as a person writes them."""
    folder.mkdir()
    (folder / "net.py").write_text(
        "from torch import nn\n"
        "def build(hidden=64):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))\n"
    )
    (folder / "samples.py").write_text(
        "import torch\n"
        "def load():\n"
        "    random = torch.Generator().manual_seed(0)\n"
        "    inputs = torch.randn(256, 8, 8, generator=random)\n"
        "    everything = torch.utils.data.TensorDataset(inputs, inputs.flatten(1)[:, :10].argmax(1))\n"
        "    train, test = torch.utils.data.random_split(everything, [0.75, 0.25], generator=random)\n"
        "    return train, test\n"
    )
    return f"{folder}/net.py:build", f"{folder}/samples.py:load"
