"""Jobs train to the same parameters, bit by bit, wherever their data are prepared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.engine.test_inputs_datasets import write_cifar
from tests.jobs import job, run, succeed

pytestmark = pytest.mark.usefixtures("gang_lane")

SMALL = """
from torch import nn

def build():
    return nn.Sequential(nn.Conv2d(3, 8, 5, stride=3), nn.ReLU(), nn.Flatten(), nn.Linear(800, 10))
"""
DYING = '''
import os, signal
import torch

class Dying(torch.utils.data.Dataset):
    """Its fourth sample is the end of the process that reads it ahead."""

    def __init__(self):
        self.trainer = os.getpid()

    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == 3 and os.getpid() != self.trainer:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.randn(1, 8, 8, generator=torch.Generator().manual_seed(index)), index

def data():
    return Dying(), Dying()
'''


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cifar10")
    write_cifar(folder, binary=True)
    return folder


@pytest.mark.parametrize(
    ("strategy", "places"),
    [
        ("ring-allreduce-overlap", [{"where": "processes", "processes": 2}, {"where": "device"}]),
        ("ddp", [{"where": "processes", "processes": 1, "prefetch": 0}]),
    ],
)
def test_training_is_the_same_wherever_its_data_are_prepared(
    strategy: str, places: list[dict[str, Any]], images: Path, tmp_path: Path
) -> None:
    """On shifted and flipped images, over more than one pass; the last batch of each is small."""
    (tmp_path / "small.py").write_text(SMALL)
    states = []
    for number, given in enumerate([{"prefetch": 0}, {"prefetch": 2}, *places]):
        spec = job(
            model={"entrypoint": "small:build", "directory": str(tmp_path)},
            data={"name": "cifar10", "options": {"directory": str(images), "shift": 4, "flip": True}},
            strategy={"name": strategy},
            cluster={"workers": 2},
            input=given,
            training={"steps": 4, "global_batch": 8, "deterministic": True},
        )
        states.append(succeed(spec, tmp_path / str(number)).state)
    for state in states[1:]:
        assert state.keys() == states[0].keys()
        assert all(torch.equal(values, states[0][name]) for name, values in state.items())


def test_a_job_whose_preparing_process_dies_ends_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "dying.py").write_text(DYING)
    spec = job(
        data={"entrypoint": "dying:data", "directory": str(tmp_path)},
        input={"where": "processes", "processes": 2},
        training={"steps": 8, "global_batch": 2},
    )
    end = run(spec, tmp_path / "attempt").end
    assert end.status == "failed"
    assert "prepare this worker's data was killed by SIGKILL" in end.reason
