"""Exact class: recurrent layers in pieces of time beside every exchange, codec, order and answer of theirs, in pairs.

What is stored changes no bit of a job, whatever travels; and with the codecs that lose nothing the job is one-process
training, with the others near it. A few layers in each job: gradients fade on their way through many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.axes.exchange import EXCHANGE
from engine.axes.memory import ACTIVATIONS
from engine.plan.job import JobSpec
from engine.plan.plan import Plan
from engine.plan.updates import ParameterGroupSpec
from engine.telemetry.events import Kind
from tests.equivalence.test_answers import NEAR, rows_that_answer
from tests.equivalence.test_composition import assert_bytes, assert_close
from tests.equivalence.test_memory import kinds
from tests.jobs import Run, describe, distance, job, reference, succeed
from tests.pairs import AXES, KINDS, Choices, covering, kind_of, pairs_in, refused
from tests.words import write_text

pytestmark = pytest.mark.usefixtures("gang_lane")

VOCABULARY = 320
TOGETHER = 4
"""Choices in one job."""
SIZES = {"layer": None, "slice": 100, "bucket": 10_000}
"""So small that a layer of 576 elements has several slices, and a bucket of float64 two such layers."""
(IN_PIECES,) = (row.name for row in ACTIVATIONS if "sequences" in row.traits)
BOTH: list[Choices] = [
    {
        "exchange": "ring-allreduce", "codec": "one-bit", "unit": "slice", "depart": "when-ready", "rank": "priority",
        "returns": "none", "activations": IN_PIECES, "update": "worker",
    },
    {
        "exchange": "parameter-server", "codec": "int8", "unit": "layer", "depart": "when-ready", "rank": "fifo",
        "returns": "notify-pull", "activations": IN_PIECES, "update": "server",
    },
]  # fmt: skip
"""The first rows of the array, which are trained in the suite; all are in `soak`."""


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("text") / "lines.txt"
    write_text(path, 120)
    return str(path)


def spec_of(
    text: str, workers: int, layers: int, overrides: Sequence[dict[str, Any]] = (), **strategy: Any
) -> JobSpec:
    return job(
        model={"name": "lstm-lm", "options": {"vocabulary": VOCABULARY, "layers": layers, "hidden": 8}},
        data={"name": "text", "options": {"vocabulary": VOCABULARY, "steps": 6, "paths": [text]}},
        strategy=strategy or {"name": "single"},
        overrides=list(overrides),
        cluster={"workers": workers},
        training={"steps": 4, "global_batch": 9, "precision": "float64", "deterministic": True},
    )


@cache
def array(text: str) -> list[Choices]:
    """BOTH, and a few more that hold every pair that a recurrent layer of two workers can have."""
    described = describe(spec_of(text, 1, 1))
    layers = [layer for layer in described.layers if layer.kind == "LSTM"]
    recurrent = replace(
        described, layers=tuple(replace(one, index=at) for at, one in enumerate(layers)), cuts=()
    )
    axes = AXES | {
        "exchange": tuple(name for name in AXES["exchange"] if "unwaited" not in EXCHANGE[name].traits),
        "activations": (IN_PIECES,),
    }
    every = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    possible = [choices for choices in every if refused(choices, recurrent, 2) is None]
    assert all(row in possible for row in BOTH)
    return [*BOTH, *covering(possible, pairs_in(possible) - pairs_in(BOTH))]


def trained(rows: Sequence[dict[str, str]], text: str, directory: Path) -> tuple[Run, float]:
    """A job with these choices, one after another, for its recurrent layers, and how far it is from one process; a
    bucket holds two layers. Few states stored are as good as all."""
    layers = [row for row in rows for _ in range(2 if row["unit"] == "bucket" else 1)]
    moving = [f"layers.{at}.*" for at, row in enumerate(layers) if kind_of(row) == "moving"]
    runs = []
    for options in ({"slots": 2}, {"slots": 50, "piece_slots": 1}):
        overrides = [
            {"layers": f"layers.{at}", "size": SIZES[row["unit"]], "activation_options": options, **row}
            for at, row in enumerate(layers)
        ]
        spec = spec_of(text, 2, len(layers), overrides, name="p3", options={"servers": 1})
        # A codec that has the momentum leaves none to the optimizer.
        groups = tuple(ParameterGroupSpec(match=match, options={"momentum": 0.0}) for match in moving)
        spec = replace(spec, optimizer=replace(spec.optimizer, groups=groups))
        runs.append(succeed(spec, directory / str(len(options))))
        assert isinstance(runs[-1].launch.plan, Plan)
        assert_bytes(runs[-1], runs[-1].launch.plan)
    few, everything = runs
    assert all(torch.equal(few.state[name], everything.state[name]) for name in few.state)
    assert Kind.RECOMPUTE in kinds(few)
    assert Kind.RECOMPUTE not in kinds(everything)
    return few, distance(few.state, reference(spec_of(text, 1, len(layers)), 2))


def in_jobs(rows: Sequence[dict[str, str]]) -> list[Sequence[dict[str, str]]]:
    return [rows[at : at + TOGETHER] for at in range(0, len(rows), TOGETHER)]


def test_pieces_of_time_go_with_a_codec_that_remembers_and_with_a_server(text: str, tmp_path: Path) -> None:
    run, far = trained(BOTH, text, tmp_path)
    assert_close(far, bound=0.0, kind="remembered")
    chosen = {(layer.exchange, layer.codec) for layer in run.plan.layers if layer.overrides}
    assert chosen == {(row["exchange"], row["codec"]) for row in BOTH}


@pytest.mark.soak
@pytest.mark.parametrize("kind", [*KINDS, "moving", "voting"])
def test_every_pair_of_a_recurrent_layer_trains_in_pieces_of_time(
    kind: str, text: str, tmp_path: Path
) -> None:
    """Steps by vote are of one size, so that nothing in one process is near them."""
    rows = [row for row in array(text) if kind_of(row) == kind]
    assert rows
    for number, together in enumerate(in_jobs(rows)):
        _, far = trained(together, text, tmp_path / str(number))
        if kind != "voting":
            assert_close(far, bound=1e-12, kind="remembered" if kind == "moving" else kind)


@pytest.mark.soak
@pytest.mark.parametrize("answers", NEAR)
def test_every_pair_with_an_encoded_answer_trains_in_pieces_of_time(
    answers: str, text: str, tmp_path: Path
) -> None:
    rows = [
        row | {"update": "server", "activations": IN_PIECES}
        for row in rows_that_answer()
        if row["answers"] == answers
    ]
    for number, together in enumerate(in_jobs(rows)):
        run, far = trained(together, text, tmp_path / str(number))
        assert_close(far, bound=0.0, kind="random")
        assert {layer.answers for layer in run.plan.layers if layer.overrides} == {answers}
