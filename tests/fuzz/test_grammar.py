"""The grammar: whatever is drawn is a file that plain PyTorch trains; the same number is always the same file."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from engine.instrumentation.compiled import is_compiled
from engine.strategies import STRATEGIES as CATALOGUE
from tests.fuzz import reference
from tests.fuzz.campaign import case_of
from tests.fuzz.compiled import compilable, file_of
from tests.fuzz.distance import distances, tolerance
from tests.fuzz.grammar.extras import EXTRAS
from tests.fuzz.grammar.file import write
from tests.fuzz.grammar.flows import FLOWS
from tests.fuzz.grammar.layers import LAYERS
from tests.fuzz.grammar.losses import LOSSES
from tests.fuzz.network import Block, Case, Extra, Network
from tests.fuzz.training import PEERS, STRATEGIES
from tests.fuzz.trial import load

JOB = {
    "strategy": {"name": "single", "options": {}},
    "cluster": {"workers": 2},
    "training": {"steps": 3, "global_batch": 8, "micro_batches": 2, "precision": "float64",
        "clip_norm": None, "seed": 1},
    "optimizer": {"name": "sgd", "learning_rate": 0.05, "options": {}},
    "schedule": {"name": "constant", "options": {}},
    "evaluation": {"every_epochs": 1, "at_end": True},
}  # fmt: skip


def trained(network: Network, tmp_path: Path, backwards: bool = False) -> reference.Trained:
    path = tmp_path / "net.py"
    path.write_text(write(replace(network, samples=16), "float64").source)
    return reference.train(load(path), JOB, backwards=backwards)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("inputs", ["vector", "words"])
def test_plain_pytorch_trains_every_form_of_every_layer(layer: str, inputs: str, tmp_path: Path) -> None:
    for variant in range(3 if layer == "lazy" else 4):  # the last one no optimizer takes
        block = Block(layer=layer, variant=variant, size=2 + variant)
        found = trained(Network(inputs=inputs, blocks=(block, Block(layer="linear"), block)), tmp_path)
        assert all(
            torch.isfinite(torch.view_as_real(t) if t.is_complex() else t).all() for t in found.state.values()
        )


@pytest.mark.parametrize("flow", FLOWS)
def test_plain_pytorch_trains_every_form_of_every_flow(flow: str, tmp_path: Path) -> None:
    for variant in range(4):
        for layer in ("linear", "recurrent", "batch norm"):
            block = Block(layer=layer, variant=variant, flow=flow, when=1 + variant)
            trained(Network(blocks=(Block(layer="linear"), block, block)), tmp_path)


@pytest.mark.parametrize("kind", EXTRAS)
def test_plain_pytorch_trains_with_every_extra(kind: str, tmp_path: Path) -> None:
    for variant in range(4):
        extra = Extra(kind=kind, variant=variant, when=1 + variant)
        trained(Network(blocks=(Block(layer="linear"),), extras=(extra,)), tmp_path)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("packing", ["tensor", "two arguments", "dict"])
def test_plain_pytorch_trains_with_every_loss(loss: str, packing: str, tmp_path: Path) -> None:
    found = trained(Network(loss=loss, packing=packing, blocks=(Block(layer="perceptron"),)), tmp_path)
    assert found.test_loss is not None
    assert any(not torch.equal(found.state[name], found.start[name]) for name in found.state)


def test_a_number_is_always_the_same_network() -> None:
    keys = [case_of(5, number).key for number in range(12)]
    assert keys == [case_of(5, number).key for number in range(12)]
    assert len(set(keys)) == 12


def test_numbers_are_not_alike() -> None:
    """Hypothesis gives each of them a draw of its own, not variations on one."""
    cases = [case_of(6, number) for number in range(60)]
    assert len({case.network for case in cases}) == 60
    assert {case.network.inputs for case in cases} == {"vector", "image", "sequence", "words"}
    assert {case.job["cluster"]["workers"] for case in cases} == {1, 2, 3}


def test_the_order_of_summation_moves_the_last_digits_only(tmp_path: Path) -> None:
    network = Network(blocks=(Block(layer="perceptron"), Block(layer="layer norm"), Block(layer="recurrent")))
    one, other = (trained(network, tmp_path, backwards) for backwards in (False, True))
    far = max(distance for _, distance in distances(other.state, one.state, one.start))
    assert 0 < far <= tolerance(JOB, one.state) / 10


def test_the_reference_and_the_files_know_nothing_of_the_engine() -> None:
    sources = [Path(reference.__file__).read_text()]
    sources += [write(case_of(0, number).network, "float64").source for number in range(20)]
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.partition(".")[0] in ("engine", "backend", "tests")]


def test_a_compiled_network_is_compiled_in_some_way(tmp_path: Path) -> None:
    ways = set()
    for number in range(12):
        case = case_of(0, number)
        assert file_of(case, compiled=False).source == write(case.network, case.precision).source
        path = tmp_path / f"net_{case.key}.py"
        path.write_text(file_of(case, compiled=True).source)
        found = [is_compiled(module) for module in load(path).build().modules()]
        assert any(found)
        ways.add((found[0], sum(found) > 1))
    assert len(ways) > 1


def test_most_compiled_networks_keep_their_activations() -> None:
    moved = [case for case in map(partial(case_of, 0), range(40)) if _moves(case)]
    left = [case for case in map(compilable, moved) if _moves(case)]
    assert 0 < len(left) < len(moved) / 2


def _moves(case: Case) -> bool:
    """Whether its job does something to activations."""
    return any("activations" in each for each in case.job["overrides"])


def test_every_strategy_of_the_catalogue_is_drawn() -> None:
    assert {entry.name for entry in CATALOGUE} == {*STRATEGIES, *PEERS}
