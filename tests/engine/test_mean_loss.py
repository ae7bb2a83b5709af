"""A user's own loss that returns the mean is found where the model is described, and warned of in the plan."""

import pytest

from engine.models.describe import describe_request
from tests.plans import built

SUM = 'functional.cross_entropy(model(inputs), targets, reduction="sum")'


@pytest.mark.parametrize(
    ("loss", "mean"),
    [
        ("functional.cross_entropy(model(inputs), targets)", True),
        (SUM, False),
        (f"{SUM} + 1", False),
        ("functional.cross_entropy(model(inputs), targets) * torch.rand(())", False),
    ],
)
def test_a_loss_that_is_certainly_the_mean_is_warned_of_and_no_other(tmp_path, loss, mean):
    """The model has batch statistics and dropout: its samples depend on one another while it trains."""
    name = f"loss_{abs(hash(loss))}"
    (tmp_path / f"{name}.py").write_text(
        "import torch\nfrom torch import nn\nfrom torch.nn import functional\n\ndef build():\n"
        "    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Dropout(), nn.Linear(64, 10))\n\n"
        f"def loss(model, inputs, targets):\n    return {loss}, None\n"
    )
    source = {"entrypoint": f"{name}:build", "directory": str(tmp_path)}
    found = describe_request({"model": source, "data": {"name": "digits"}})
    assert found.mean_loss == mean
    for strategy in ("p3", "ddp"):
        assert any("returns the mean" in said for said in built(strategy, found, 2).warnings) == mean
