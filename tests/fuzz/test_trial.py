"""Trials find what they are for: files that behave in one way under plain PyTorch and in another under the engine."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.fuzz import compiled, leaks, product, trial
from tests.fuzz.grammar.file import File
from tests.fuzz.network import Block, Case, Network
from tests.fuzz.program import program
from tests.fuzz.reference import Trained, train
from tests.fuzz.trial import Trials, Verdict, compare
from tests.jobs import RESIDENTS

pytestmark = pytest.mark.usefixtures("gang_lane")

JOB: dict[str, Any] = {
    "strategy": {"name": "ring-allreduce-overlap", "options": {"bucket_bytes": 40}},
    "cluster": {"workers": 2},
    "training": {"steps": 3, "global_batch": 4, "micro_batches": 1, "precision": "float64",
        "clip_norm": None, "seed": 0},
    "optimizer": {"name": "sgd", "learning_rate": 0.05, "options": {"momentum": 0.9}},
    "schedule": {"name": "constant", "options": {}},
    "evaluation": {"every_epochs": None, "at_end": True},
    "overrides": [],
}  # fmt: skip
FILE = """
import tempfile
import torch
from torch import nn

PLAIN = __name__.startswith("reference_")
WORKERS = __import__("multiprocessing").parent_process() is not None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 3)

    def forward(self, x):
        {forward}
        return self.head(x)


def build():
    return Net()


def data():
    random = torch.Generator().manual_seed(0)
    x, y = torch.randn(8, 3, generator=random), torch.randint(0, 3, (8,), generator=random)
    return torch.utils.data.TensorDataset(x, y), torch.utils.data.TensorDataset(x, y)
"""


def judged(forward: str, folder: Path, job: dict[str, Any] = JOB) -> Verdict:
    path = folder / f"net_{abs(hash(forward))}.py"
    path.write_text(FILE.format(forward=forward))
    return Trials(folder).judge(job, path, ())


@pytest.mark.parametrize(
    ("forward", "kind", "what"),
    [
        ("pass", "same", ""),
        ("x = x if PLAIN else x * 1.0000001", "failure", "silent difference"),
        ("x = x if PLAIN or self.training else x * 1.1", "failure", "silent difference of test_loss"),
        ("assert PLAIN or not WORKERS", "failure", "bare error"),
        ("assert PLAIN", "failure", "refused"),
        ("assert not PLAIN", "failure", "trained, where plain PyTorch fails"),
        ("assert False", "invalid", "AssertionError"),
        ("assert not PLAIN and not WORKERS", "invalid", "AssertionError"),
        ("x = self.head(self.head(x)); self.head.weight.detach().mul_(2)", "invalid", "RuntimeError: one of"),
        ("PLAIN or not WORKERS or __import__('os')._exit(3)", "failure", "bare error: ended without a word"),
    ],
)
def test_a_difference_is_found(forward: str, kind: str, what: str, tmp_path: Path) -> None:
    verdict = judged(forward, tmp_path)
    assert (verdict.kind, verdict.what[: len(what)]) == (kind, what), verdict.detail


def test_a_hang_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(product, "DEADLINE_S", 2.0)
    verdict = judged("PLAIN or not WORKERS or __import__('time').sleep(60)", tmp_path)
    assert verdict.kind == "failure"
    assert verdict.what.startswith("hang")


def test_what_is_left_behind_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", "")  # both are as they were when the test has ended
    monkeypatch.setattr("tempfile.tempdir", None)
    leaks.private_temporaries(tmp_path / "temporary")
    before = leaks.Watch(RESIDENTS)
    assert before.left() == []
    (tmp_path / "temporary" / "forgotten").touch()
    with (
        (tmp_path / "open").open("w"),
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE),
    ):
        left = "\n".join(before.left())
    assert "temporary file forgotten" in left
    assert "process" in left
    assert "more open" in left


def test_a_network_whose_own_two_orders_differ_is_drawn_again(tmp_path: Path) -> None:
    """A rounding error becomes all there is of a tensor."""
    verdict = judged("w = self.head.weight; x = x + 1e12 * ((w + 1e3) - 1e3 - w).sum()", tmp_path)
    assert verdict.kind == "unstable"


@pytest.mark.parametrize(
    ("forward", "apart"),
    [
        # As an Embedding's `max_norm`: written before it is read, to what everybody makes of it.
        (
            "self.head.weight.data.fill_(0.1) if self.training else self.head.weight.data.mul_(1 + x.mean())",
            None,
        ),
        # The step makes it equal again, after it has been read.
        (
            "x = x * self.head.bias.sum(); self.training or self.head.bias.data.mul_(1 + x.mean())"
            "; self.head.bias.data.fill_(0.1) if self.training else None",
            "head.bias",
        ),
        ("self.training or self.head.weight.data.mul_(1 + x.mean())", "head.weight"),
    ],
)
def test_what_an_evaluation_leaves_unlike_counts_where_it_is_read(
    forward: str, apart: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "evaluated.py"
    path.write_text(FILE.format(forward=forward))
    job = {**JOB, "evaluation": {"every_epochs": 1, "at_end": False}}
    assert train(trial.load(path), job).apart == apart


def test_a_result_far_away_is_no_success() -> None:
    state = {"w": torch.ones(4, dtype=torch.float64)}
    expected = Trained(state=state, start=state, test_loss=1.0, test_accuracy=None, apart=None)
    near = product.Ended(how="trained", state=state, test_loss=1.0)
    assert compare(expected, near, JOB).kind == "same"
    for found in (
        replace(near, state={"w": state["w"] * (1 + 1e-9)}),
        replace(near, state={"w": state["w"] * torch.nan}),
        replace(near, state={"w": state["w"].float()}),
        replace(near, state={"v": state["w"]}),
        replace(near, test_loss=1.1),
        replace(near, test_accuracy=0.5),
    ):
        assert compare(expected, found, JOB).kind == "failure"
    apart = replace(expected, apart="w")
    assert compare(apart, near, JOB).what == "trained, though workers write other values"
    assert compare(apart, near, JOB | {"strategy": {"name": "ddp"}}).kind == "same"


@pytest.mark.parametrize(
    ("planted", "kind", "what"),
    [(False, "unstable", "random numbers behind a cut"), (True, "failure", "silent difference")],
)
def test_random_numbers_excuse_only_what_goes_with_them(
    planted: bool, kind: str, what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Behind a cut they are the stage's own, so that the network trains otherwise than the reference."""

    def file_of(case: Case, **how: Any) -> File:
        file = compiled.file_of(case, **how)
        return replace(file, source=file.source.replace("h = x\n", f"h = x * {factor}\n"))

    factor = "(1.0 if __name__.startswith('reference_') else 1.001)" if planted else "1.0"
    monkeypatch.setattr(trial, "file_of", file_of)
    monkeypatch.setenv("TMPDIR", "")
    monkeypatch.setattr("tempfile.tempdir", None)
    leaks.private_temporaries(tmp_path / "temporary")  # where others put nothing
    blocks = tuple(Block(layer=layer) for layer in ("linear", "linear", "dropout"))
    job = JOB | {"strategy": {"name": "hybrid", "options": {"cut": "linear2"}}}
    verdict = Trials(tmp_path).attempt(Case(network=Network(width=4, blocks=blocks, samples=8), job=job))
    assert (verdict.kind, verdict.what) == (kind, what), verdict.detail


def test_the_program_of_a_failure_shows_it(tmp_path: Path) -> None:
    case = Case(network=Network(blocks=(Block(layer="linear"),)), job=JOB)
    text = program(case, Verdict(kind="failure", what="as planted"))
    planted = text.replace(
        "return Net()",
        'net = Net()\n    net.head1.weight.data += 0.1 * (__name__ == "shown")\n    return net',
    )
    path = tmp_path / "shown.py"
    path.write_text(planted)
    done = subprocess.run(
        [sys.executable, str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        timeout=120,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "failure: silent difference" in done.stdout
