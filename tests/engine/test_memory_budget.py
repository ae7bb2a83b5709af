"""A job with a budget of memory: what each layer does with its activations, within it, and what the plan says of it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.axes.memory import ACTIVATIONS
from engine.errors import UserError
from engine.liveness.fitting import Fitter, Wanted
from engine.liveness.measured import RealSteps, measured_peak
from engine.liveness.peak import peak_of
from engine.liveness.request import purpose
from engine.memory.blocks import Asked
from engine.models import registry
from engine.plan.budget import Fitted, LayerChoice
from engine.plan.job import JobSpec
from engine.plan.mechanism_options import options_of
from engine.plan.plan import Plan
from engine.plan.serde import from_plain, to_plain
from engine.plan.units_of_measure import parse_bytes
from engine.plan.updates import OptimizerSpec
from engine.preview import notes, rows, text
from engine.strategies import build_plan
from tests.engine.test_liveness_peak import MODELS
from tests.jobs import describe, job, plan_of
from tests.memory import training
from tests.plans import choose

SGD = OptimizerSpec(name="sgd", learning_rate=0.1, options={"momentum": 0.9})
MIB = 2**20


def budgeted(budget: Any, **changes: Any) -> JobSpec:
    changes = {"model": {"name": "bn-cnn"}, "training": {"global_batch": 256}, **changes}
    return job(memory={"budget": budget}, **changes)


def planned(budget: Any, **changes: Any) -> tuple[Plan, Fitted]:
    plan = plan_of(budgeted(budget, **changes))
    assert isinstance(plan, Plan)
    assert plan.memory is not None
    return plan, plan.memory


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("6GiB", 6 * 2**30),
        ("600 MB", 6 * 10**8),
        ("1.5 KiB", 1536),
        ("2kB", 2000),
        ("77", 77),
        (77, 77),
        ("8B", 8),
    ],
)
def test_a_budget_has_words_with_units_or_bytes(given: Any, found: int) -> None:
    assert parse_bytes(given, "budget") == found
    spec = budgeted(given)
    assert spec.memory.budget_bytes == found
    assert from_plain(JobSpec, to_plain(spec)) == spec


@pytest.mark.parametrize(
    "given", [0, -1, "0", "lots", "-6GiB", "6 gib", "6GiBit", "", "2000TiB", 1.5, True, "1e9", [1], {}]
)
def test_no_other_budget_is_taken(given: Any) -> None:
    with pytest.raises(UserError) as refused:
        budgeted(given)
    error = refused.value
    assert error.field == "memory.budget"
    assert error.value == given
    assert error.rule
    assert error.remedy


def test_what_memory_is_too_little_for_is_said_by_what_was_asked() -> None:
    asked = [{"blocks": True}, {"room": {}}, {"budget": 1}, {}]
    assert [purpose(one) for one in asked] == [
        "to be described",
        "for its largest batch to be found",
        "for its budget to be planned",
        "for what its steps hold to be predicted",
    ]


def test_a_value_of_another_kind_is_told_the_whole_rule() -> None:
    for given in ([1], {}):
        with pytest.raises(UserError, match=r"must be text or a whole number\. Correct the value"):
            budgeted(given)
    with pytest.raises(UserError, match=r"must be text or a whole number\. Put it in quotes: '1\.5'"):
        budgeted(1.5)


def test_a_plan_fits_its_budget_and_says_why() -> None:
    free, kept = planned("1GiB")
    assert {layer.activations for layer in free.layers} == {"keep"}
    assert kept.peak == kept.kept
    assert kept.extra_ns == 0
    budget = round(0.85 * kept.peak)
    plan, fitted = planned(budget)
    assert fitted.kept == kept.peak
    assert fitted.peak <= budget
    assert fitted.extra_ns > 0
    moved = {layer.layer for layer in plan.layers if layer.activations != "keep"}
    assert 0 < len(moved) < len(plan.layers)
    why = {choice.layer: choice.why for choice in fitted.layers}
    assert why.keys() == {layer.layer for layer in plan.layers}
    spec, model = budgeted(budget), describe(budgeted(budget))
    assert {row.layer: row.activations_why for row in rows(plan, model, spec)} == why
    shown = text(plan, model, spec)
    assert fitted.why in notes(plan, model, spec)
    assert all(why[layer] in shown for layer in moved)
    assert from_plain(Plan, to_plain(plan)) == plan


def test_what_an_override_says_stays() -> None:
    """Also that a layer keeps its activations; the others make up for it."""
    changes: dict[str, Any] = {"model": {"name": "resnet-digits"}}
    most = planned("1GiB", **changes)[1].peak
    changes["overrides"] = [
        {"layers": "stage1*", "activations": "keep"},
        {"kind": "linear", "activations": "recompute"},
    ]
    budget = round(0.9 * most)
    plan, fitted = planned(budget, **changes)
    found = {layer.layer: layer.activations for layer in plan.layers}
    fixed = {name for name in found if name.startswith("stage1") or name == "fc"}
    assert {found[name] for name in fixed} == {"keep", "recompute"}
    assert found["fc"] == "recompute"
    assert fitted.peak <= budget
    assert {choice.layer for choice in fitted.layers} == found.keys() - fixed
    assert any(choice.activations != "keep" for choice in fitted.layers)
    spec = budgeted(budget, **changes)
    said = [note.partition(":")[0] for note in notes(plan, describe(spec), spec)]
    assert said[:3] == ["overrides.0", "overrides.1", "memory.budget"]


def test_an_impossible_budget_says_what_the_least_is_and_that_is_possible() -> None:
    with pytest.raises(UserError, match=r"memory\.budget = '1\.0 KiB': no choice .* below") as refused:
        planned("1KiB")
    least = int(refused.value.rule.rpartition("(")[2].split()[0])
    assert planned(least)[1].peak == least
    words = refused.value.rule.partition("below ")[2].partition(" (")[0]
    assert parse_bytes(words, "budget") >= least, "what is said in words is enough, too"
    named = refused.value.remedy.removeprefix("Give ").split()[0]
    assert planned(named)[1].peak == least, "what the remedy names is enough"
    with pytest.raises(UserError, match=f"{least} bytes"):
        planned(least - 1)


def test_what_a_worker_holds_beside_its_step_is_taken_off() -> None:
    """A codec's residual is as large as the parameters."""
    ring = {"strategy": {"name": "ring-allreduce"}, "cluster": {"workers": 2}}
    coded = {**ring, "overrides": [{"codec": "top-k"}]}
    one, two = (planned("1GiB", **ways)[1] for ways in (ring, coded))
    trained = sum(layer.trainable_count for layer in describe(budgeted(1)).layers)
    assert two.peak - one.peak == 4 * trained
    fitted = planned(one.peak, **coded)[1]
    assert fitted.peak <= one.peak
    assert fitted.extra_ns > 0


REFUSED: dict[str, dict[str, Any]] = {
    "PyTorch's own runner": {"strategy": {"name": "ddp"}, "cluster": {"workers": 2}},
    "a rehearsal computes nothing": {"fidelity": "rehearse"},
    "autocast": {"training": {"precision": "bf16"}},
}


@pytest.mark.parametrize("says", REFUSED)
def test_where_nobody_predicts_nothing_is_chosen(says: str) -> None:
    with pytest.raises(UserError, match=rf"memory\.budget = '1GiB': nothing can be chosen for it: .*{says}"):
        planned("1GiB", **REFUSED[says])


def test_who_builds_a_plan_by_himself_is_told_that_nobody_chooses() -> None:
    spec = budgeted("1GiB")
    with pytest.raises(UserError, match="asks nobody what steps hold"):
        build_plan(spec, describe(spec))


def test_a_measured_profile_says_what_is_computed_again(tmp_path: Path) -> None:
    """The layer that it calls slow is not; a profile of another model is refused."""
    spec = budgeted("1GiB")
    model = describe(spec)
    slow = "3"
    layers = [
        {"layer": layer.name, "forward_s": 1.0 if layer.name == slow else 1e-6, "backward_s": 1e-6}
        for layer in model.layers
    ]
    profile = {
        "model": model.name, "checksum": model.checksum, "source": "measured", "device": "cpu",
        "batch": 256, "layers": layers,
    }  # fmt: skip
    file = tmp_path / "profile.json"
    file.write_text(json.dumps(profile))
    budget = round(0.85 * planned("1GiB")[1].peak)

    def with_profile(path: Path, **changes: Any) -> Plan:
        found = replace(
            budgeted(budget, **changes), memory=replace(spec.memory, budget=budget, profile=str(path))
        )
        plan = build_plan(found, describe(found), choose=choose)
        assert isinstance(plan, Plan)
        return plan

    plan = with_profile(file)
    assert {layer.layer: layer.activations for layer in plan.layers}[slow] != "recompute"
    assert plan.memory is not None
    assert str(file) in plan.memory.rates
    with pytest.raises(UserError, match=r"memory\.profile = .*differ in their layers"):
        with_profile(file, model={"name": "cnn"})


def counting() -> Iterator[int]:
    count = 0
    while True:
        count += 1
        yield count


CALLS = counting()


class Counted(nn.Linear):
    """Its forward depends on how often it ran, which nothing can put back."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (1 + next(CALLS) % 2)


def counted() -> nn.Module:
    inner = [each for _ in range(3) for each in (Counted(256, 256), nn.Tanh())]
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 256), *inner, nn.Linear(256, 10))


def fitter(make: Callable[[], nn.Module], batch: Callable[[], tuple[Tensor, Tensor]]) -> Fitter:
    with torch.device("meta"):
        model, (inputs, targets) = make(), batch()
    whole = training(model, inputs, targets)
    described = whole.described

    def look(choices: Any) -> Any:
        return peak_of(whole, SGD, choices)

    free = tuple(layer.name for layer in described.layers if any(p.trainable for p in layer.parameters))
    wanted = Wanted(beside=0, free=free, threads=1, accumulated=False)
    return Fitter(whole, {}, look, wanted)


def images(samples: int) -> Callable[[], tuple[Tensor, Tensor]]:
    return lambda: (torch.zeros(samples, 1, 8, 8), torch.zeros(samples, dtype=torch.int64))


def resnet_digits() -> nn.Module:
    return registry.build("resnet-digits", {})


@cache
def resnet() -> Fitter:
    return fitter(resnet_digits, images(256))


@pytest.mark.soak
def test_a_smaller_budget_never_has_a_higher_peak() -> None:
    """200 budgets of a model, whole steps looked at; in the suite, `test_budget_verified.py` has 200 of drawn costs."""
    draw, most = random.Random(8), resnet().fit(2**40).peak
    found: list[Fitted] = []
    refused: list[int] = []
    for budget in sorted(draw.randrange(most // 3, round(1.1 * most)) for _ in range(200)):
        try:
            found.append(resnet().fit(budget))
        except UserError:
            refused.append(budget)
        else:
            assert found[-1].peak <= budget
    assert len(found) > 100
    assert max(refused) < found[0].peak
    assert len({each.peak for each in found}) > 5
    for small, large in pairwise(found):
        assert small.peak <= large.peak
        assert small.extra_ns >= large.extra_ns


def check_real_steps(
    fitted: Fitted, make: Callable[[], nn.Module], batch: Callable[[], tuple[Tensor, Tensor]], folder: Path
) -> None:
    """What they hold is within the budget, and within 3 % of what was predicted."""
    torch.manual_seed(0)
    model = make()
    choices = asked(fitted.layers)
    real = measured_peak(RealSteps(training(model, *batch()), SGD, choices, scratch=str(folder)))
    with torch.device("meta"):
        predicted = peak_of(training(make(), *batch()), SGD, choices)
    assert real <= 1.03 * fitted.budget
    assert abs(real - predicted.total) <= 0.03 * real
    assert fitted.peak == max(predicted.total, predicted.first)


def asked(layers: tuple[LayerChoice, ...]) -> dict[str, Asked]:
    return {
        each.layer: Asked(each.activations, options_of(ACTIVATIONS[each.activations], each.options, ""))
        for each in layers
        if each.activations != "keep"
    }


@pytest.mark.parametrize("share", [0.85, 0.7])
def test_real_steps_hold_what_was_predicted(share: float, tmp_path: Path) -> None:
    most = resnet().fit(2**40).peak
    fitted = resnet().fit(round(share * most))
    assert asked(fitted.layers)
    check_real_steps(fitted, resnet_digits, images(256), tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("name", MODELS)
def test_real_steps_of_every_kind_of_model_hold_what_was_predicted(name: str, tmp_path: Path) -> None:
    """Each of what 200 random budgets choose, in order."""
    make, batch = MODELS[name]
    found = fitter(make, batch)
    draw, most = random.Random(1), found.fit(2**40).peak
    chosen: dict[int, Fitted] = {}
    for budget in sorted(draw.randrange(most // 4, most) for _ in range(200)):
        try:
            fitted = found.fit(budget)
        except UserError:
            assert not chosen
        else:
            assert max(chosen, default=0) <= fitted.peak <= budget
            chosen[fitted.peak] = fitted
    for fitted in chosen.values():
        check_real_steps(fitted, make, batch, tmp_path)


def test_where_nothing_can_be_computed_again_it_is_swapped() -> None:
    """A budget's peak is within it all the same, and the plan says why."""
    found = fitter(counted, images(1024))
    most = found.fit(2**40).peak
    fitted = found.fit(round(0.92 * most))
    assert {each.activations for each in fitted.layers} <= {"keep", "swap"}
    assert "nothing is computed again: " in fitted.why


def partly_compiled() -> nn.Module:
    inner = [each for _ in range(4) for each in (nn.Linear(256, 256), nn.Tanh())]
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 256), *inner, nn.Linear(256, 10))
    net[4].compile(backend="eager")
    return net


def test_what_is_compiled_keeps_its_activations_and_others_make_up_for_it() -> None:
    """No budget was taken: nothing can be done with what such a layer saves."""
    found = fitter(partly_compiled, images(1024))
    fitted = found.fit(round(0.95 * found.fit(2**40).peak))
    chosen = {each.layer: each for each in fitted.layers}
    assert (chosen["4"].activations, chosen["4"].why) == (
        "keep",
        "it is in compiled code, which is called as a whole",
    )
    assert any(each.activations != "keep" for each in fitted.layers)
