"""Quick kernels on tensors without values answer as PyTorch's own do."""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.inputs.task import classification
from engine.liveness.peak import peak_of
from engine.liveness.training import Training
from engine.models.describe import describe
from engine.models.meta_kernels import _KERNELS, quick
from engine.plan.updates import OptimizerSpec

ATEN = torch.ops.aten


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


X, DOUBLE, HALF = meta(2, 3, 4), meta(2, 3, 4, dtype=torch.float64), meta(2, 3, 4, dtype=torch.bfloat16)
TURNED, WIDE, ROW = meta(4, 3, 2).permute(2, 1, 0), meta(2, 3, 8)[..., :4], meta(4)
IMAGE = meta(2, 3, 4, 4)
LAST = IMAGE.to(memory_format=torch.channels_last)
C, D = meta(3), meta(3, dtype=torch.float64)
MATRIX, EMPTY = meta(5, 4), meta(0, 3, 4)
NUMBER = torch.tensor(0.5)
"""On the host."""
WHOLE = meta(4), meta(4)

CASES: dict[str, list[tuple[Any, ...]]] = {
    "native_batch_norm": [
        (IMAGE, C, C, C, C, True, 0.1, 1e-5),
        (X, None, None, None, None, True, 0.1, 1e-5),
        (IMAGE, C, C, C, C, False, 0.1, 1e-5),
        (LAST, C, C, C, C, True, 0.1, 1e-5),
        (IMAGE, D, D, D, D, True, 0.1, 1e-5),
        (HALF, C, C, C, C, True, 0.1, 1e-5),
        (meta(1, 3), C, C, C, C, True, 0.1, 1e-5),
    ],
    "native_layer_norm": [
        (X, [4], ROW, ROW, 1e-5),
        (X, [3, 4], None, None, 1e-5),
        (HALF, [4], None, None, 1e-5),
        (X, [4], None, ROW, 1e-5),
        (X, [3], C, C, 1e-5),
        (TURNED, [4], ROW, ROW, 1e-5),
        (EMPTY, [4], ROW, ROW, 1e-5),
    ],
    "native_layer_norm_backward": [
        (X, X, [4], meta(2, 3, 1), meta(2, 3, 1), *WHOLE, [True, True, True]),
        (X, X, [4], meta(2, 3, 1), meta(2, 3, 1), *WHOLE, [True, False, True]),
        (TURNED, X, [4], meta(2, 3, 1), meta(2, 3, 1), *WHOLE, [True, True, True]),
        (X, X, [4], meta(2, 3, 1), meta(2, 3, 1), None, None, [True, False, False]),
    ],
    "addmm": [
        (meta(5), MATRIX, MATRIX.t()),
        (meta(5, 5), MATRIX, MATRIX.t()),
        (meta(5), MATRIX, meta(4, 5)),
        (meta(1), MATRIX, MATRIX.t()),
        (meta(5), meta(0, 4), MATRIX.t()),
        (meta(5), MATRIX, MATRIX),
        (meta(5, dtype=torch.float64), MATRIX, MATRIX.t()),
    ],
    "_safe_softmax": [(X, -1), (X, 1), (X, -1, torch.float64), (TURNED, -1), (X, 3)],
    "normal_": [(X,), (X, 1.0, 2.0), (X, 0.0, -1.0)],
    "mul.Scalar": [(X, 2), (X, 2.5), (meta(3, dtype=torch.float64), 2), (meta(3).to(torch.int64), 2.5), (X, 1j)],
    **{
        name: [
            (X,), (DOUBLE,), (HALF,), (TURNED,), (WIDE,), (meta(3).expand(2, 3),), (EMPTY,), (meta(2).long(),),
            (meta(),),
        ]
        for name in ("sigmoid", "tanh", "gelu", "sigmoid_", "tanh_")
    },
    **{
        name: [
            (X, X), (WIDE, X), (X, TURNED), (TURNED, TURNED), (X, DOUBLE), (X, ROW), (X, meta(5)), (meta(), meta()),
            (X, meta()), (NUMBER, meta()), (meta(), NUMBER),
        ]
        for name in ("add.Tensor", "mul.Tensor", "sigmoid_backward", "tanh_backward", "gelu_backward")
    },
}  # fmt: skip


def told(operation: Any, given: tuple[Any, ...]) -> Any:
    """What it answers, by place, type, shape and strides; or that it refuses."""
    try:
        found = operation(*given)
    except Exception as error:
        return type(error)
    every = found if isinstance(found, tuple | list) else (found,)
    return [None if each is None else (each.device, each.dtype, each.shape, each.stride()) for each in every]


@pytest.mark.parametrize("name", CASES)
def test_it_answers_as_pytorchs_own(name: str) -> None:
    packet, _, overload = name.partition(".")
    operation = getattr(getattr(ATEN, packet), overload or "default")
    plain = [told(operation, given) for given in CASES[name]]
    with quick():
        assert [told(operation, given) for given in CASES[name]] == plain
    assert _KERNELS[operation](*CASES[name][0]) is not None, "the plain case is its own"
    assert [told(operation, given) for given in CASES[name]] == plain, "and it is gone"


def test_each_kernel_is_held_to_pytorchs_own() -> None:
    every = {f"{each}".removeprefix("aten.").removesuffix(".default") for each in _KERNELS}
    assert every == CASES.keys()


class Norms(nn.Module):
    """What takes most of a description's time otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
        self.rows = nn.LSTM(36, 36, num_layers=2)
        self.head = nn.Sequential(nn.LayerNorm(36), nn.Linear(36, 36), nn.GELU())

    def forward(self, inputs: Tensor) -> Tensor:
        found = self.image(inputs).flatten(2)
        again: Tensor = self.head(self.rows(found + found)[0]) * 2
        return again


def test_little_of_a_usual_pass_is_composed_in_python() -> None:
    composed: Counter[str] = Counter()

    def look(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and "/torch/_prims/" in frame.f_code.co_filename:
            composed[frame.f_code.co_name] += 1

    def run() -> int:
        composed.clear()
        with torch.device("meta"):
            model, inputs = Norms(), torch.empty(2, 3, 8, 8)
        sys.setprofile(look)
        try:
            model(inputs)
        finally:
            sys.setprofile(None)
        return composed.total()

    without = run()
    with quick():
        assert 10 * run() < without, composed


def test_who_describes_and_predicts_takes_them_also_within_one_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[Tensor] = []

    def noted(inputs: Tensor) -> Tensor:
        taken.append(inputs)
        return inputs.new_empty(inputs.shape)

    monkeypatch.setitem(_KERNELS, ATEN.sigmoid.default, noted)
    with torch.device("meta"):
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.Sigmoid())
        inputs, targets = torch.empty(2, 1, 8, 8), torch.empty(2, dtype=torch.int64)
    described = describe(model, inputs, targets, "a sigmoid")
    assert taken
    taken.clear()
    sgd = OptimizerSpec(name="sgd", learning_rate=0.1)
    training = Training(model=model, described=described, inputs=inputs, targets=targets, task=classification)
    peak_of(training, sgd, {})
    assert taken
    with quick():
        with quick():
            pass
        taken.clear()
        torch.sigmoid(inputs)
        assert taken
    torch.sigmoid(inputs)
    assert len(taken) == 1, "and they are gone"
