"""What was frozen when a model was built must stay so."""

from __future__ import annotations

import pytest
from torch import nn

from engine.errors import TrainingError
from engine.replica.frozen import Frozen


def test_who_thaws_what_is_in_no_plan_is_told() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].requires_grad_(False)
    frozen = Frozen(model)
    model[1].requires_grad_(False)
    frozen.check(0)
    model[1].requires_grad_(True)
    frozen.check(1)
    model[0].weight.requires_grad_(True)
    with pytest.raises(
        TrainingError, match=r"0\.weight was frozen when the model was built.* step 2.*freeze it in forward"
    ):
        frozen.check(2)
