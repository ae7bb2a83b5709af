"""Plans with layers in a row: balanced stages, schedules, declared bytes, and what is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.errors import UserError
from engine.launch import write_json
from engine.placement.neighbours import patience
from engine.placement.schedule import actions
from engine.plan.cluster import cluster_of, parties
from engine.plan.plan import Plan
from engine.plan.rules import resolve
from engine.plan.serde import to_plain
from engine.profile import LayerTime, Profile
from engine.protocol.messages import Message
from engine.simulate.declared import declared, wire_bytes
from engine.strategies import build_plan
from tests.plans import described, job


def planned(name: str, workers: int, options: dict[str, Any] | None = None, **training: Any) -> Plan:
    spec = job("model-parallel", workers, options, training={"steps": 1, "global_batch": 64, **training})
    plan = build_plan(spec, described(name))
    assert isinstance(plan, Plan)
    return plan


def stages_of(plan: Plan) -> dict[str, int | None]:
    return {layer.layer: layer.place for layer in plan.layers}


def test_a_batch_is_shared_by_replicas_not_by_stages() -> None:
    """Two workers are one replica in two stages: eight micro-batches need eight samples."""
    assert planned("cnn", 2, {}, global_batch=8, micro_batches=8)
    with pytest.raises(UserError, match=r"smaller than 1 x 8 \(replicas of all stages x micro-batches\)"):
        planned("cnn", 2, {}, global_batch=7, micro_batches=8)


def test_stages_are_balanced_by_operations_or_by_what_was_measured(tmp_path: Path) -> None:
    model, plan = described("resnet50"), planned("resnet50", 4)
    assert plan.pipeline is not None
    assert plan.pipeline.stages == 4
    cost = Counter[int]()
    for layer in model.layers:
        place = stages_of(plan)[layer.name]
        assert place is not None
        cost[place] += layer.forward_flops
    assert max(cost.values()) < 1.25 * model.forward_flops / 4
    order = [cut.layer for cut in model.cuts]
    places = [stages_of(plan)[name] for name in order if name in stages_of(plan)]
    assert places == sorted(places, key=lambda place: place or 0), "contiguous"

    cnn = described("cnn")
    assert stages_of(planned("cnn", 2)) == {"0": 0, "2": 1, "6": 1}
    times = [
        LayerTime(layer=x.name, forward_s=1.0 if x.name != "6" else 9.0, backward_s=1.0) for x in cnn.layers
    ]
    profile = Profile(
        model="cnn", checksum=cnn.checksum, source="measured", device="x", batch=1, layers=tuple(times)
    )
    write_json(tmp_path / "profile.json", to_plain(profile))
    measured = planned("cnn", 2, {"profile": str(tmp_path / "profile.json")})
    assert stages_of(measured) == {"0": 0, "2": 0, "6": 1}
    assert stages_of(planned("cnn", 3)) == {"0": 0, "2": 1, "6": 2}


def test_replicas_exchange_each_stage_by_itself() -> None:
    model, plan = described("cnn"), planned("cnn", 4, {"stages": 2, "cuts": ["6"]})
    sizes = {layer.name: layer.parameter_bytes for layer in model.layers}
    moved: Counter[tuple[int, int]] = Counter()
    for transfer in declared(plan, model, 4):
        moved[transfer.source, transfer.destination] += transfer.bytes
    cut = model.cut("6")
    assert cut is not None
    edge, front, back = 32 * cut.activation_bytes, sizes["0"] + sizes["2"], sizes["6"]
    assert moved == {
        (0, 1): edge, (1, 0): edge, (2, 3): edge, (3, 2): edge,
        (0, 2): front, (2, 0): front, (1, 3): back, (3, 1): back,
    }  # fmt: skip
    assert wire_bytes(plan, model, 4) == 4 * edge + 2 * front + 2 * back


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
@pytest.mark.parametrize("stages", [2, 3, 5])
@pytest.mark.parametrize("micro_batches", [1, 2, 4, 9])
def test_every_schedule_comes_to_its_end(schedule: str, stages: int, micro_batches: int) -> None:
    """Played out: each stage does its actions in order as soon as what they need is there."""
    lists = [actions(schedule, k, stages, micro_batches) for k in range(stages)]
    done = [Counter[str]() for _ in range(stages)]
    at = [0] * stages
    moved = True
    while moved:
        moved = False
        for k in range(stages):
            while at[k] < micro_batches * 2:
                action = lists[k][at[k]]
                n = done[k][action]
                if action == "forward":
                    ready = k == 0 or done[k - 1]["forward"] > n
                else:
                    ready = done[k]["forward"] > n and (k == stages - 1 or done[k + 1]["backward"] > n)
                if not ready:
                    break
                done[k][action] += 1
                at[k] += 1
                moved = True
                flying = done[k]["forward"] - done[k]["backward"]
                assert flying <= (micro_batches if schedule == "gpipe" else stages - k)
    assert at == [2 * micro_batches] * stages


@pytest.mark.parametrize("stages", [2, 3, 5])
def test_of_a_stage_that_hangs_its_neighbours_speak_first(stages: int) -> None:
    """Those behind it wait for activations, those in front of it for gradients."""
    waits = [patience(k, stages) for k in range(stages)]
    for hangs in range(stages):
        behind = [waits[k][Message.ACTIVATION] for k in range(hangs + 1, stages)]
        before = [waits[k][Message.ACTIVATION_GRADIENT] for k in reversed(range(hangs))]
        for each in (behind, before):
            assert each == sorted(set(each)), "the farther away, the later"


def test_few_micro_batches_are_warned_of() -> None:
    (warning,) = planned("cnn", 3).warnings
    assert "micro_batches = 1: 3 stages wait for one another at least 67 % of the time; with 9" in warning
    assert planned("cnn", 3, micro_batches=9).warnings == ()


def refusal(name: str, workers: int, options: dict[str, Any], **changes: Any) -> str:
    with pytest.raises(UserError) as caught:
        build_plan(job("model-parallel", workers, options, **changes), described(name))
    assert caught.value.remedy
    return str(caught.value)


def test_what_nobody_could_run_is_refused() -> None:
    assert "cluster.workers = 4: is no multiple of the 3 stages" in refusal("cnn", 4, {"stages": 3})
    assert "cnn can be cut only in front of: 2, 6. Use at most 3 stages" in refusal("cnn", 5, {"stages": 5})
    assert "2 stages have 1 cuts between them" in refusal("cnn", 2, {"stages": 2, "cuts": ["2", "6"]})
    assert "the stage between them has no layer" in refusal("cnn", 3, {"stages": 3, "cuts": ["6", "2"]})
    assert "the stage between them has no layer" in refusal("cnn", 3, {"stages": 3, "cuts": ["6", "6"]})
    assert "no layer would be left in front of it" in refusal("cnn", 2, {"cuts": ["0"], "stages": 2})
    assert "tied, or used again" in refusal("tied", 2, {"cuts": ["decode"], "stages": 2})
    assert "sometimes cannot be cut: torch.fx cannot trace" in refusal("sometimes", 2, {"stages": 2})
    clipped = {"training": {"steps": 1, "clip_norm": 1.0}}
    assert "each stage has its own" in refusal("cnn", 2, {}, **clipped)


def test_wrong_cuts_are_refused_at_their_field() -> None:
    for cuts in (["0"], ["conv9"], ["6", "2"]):
        with pytest.raises(UserError) as caught:
            build_plan(job("model-parallel", len(cuts) + 1, {"cuts": cuts}), described("cnn"))
        assert caught.value.field == "strategy.options.cuts"
    with pytest.raises(UserError, match="1 stages have 0 cuts between them"):
        build_plan(job("model-parallel", 2, {"cuts": ["6"], "stages": 1}), described("cnn"))


def test_cuts_say_how_many_stages_there_are() -> None:
    plan = planned("cnn", 4, {"cuts": ["6"]})
    assert plan.pipeline is not None
    assert (plan.pipeline.stages, plan.edges[0].destination) == (2, "6")


def test_a_model_that_stays_whole_is_warned_of() -> None:
    assert "sometimes is whole on each of the 2 workers" in planned("sometimes", 2).warnings[0]
    assert "into 2 to 3 stages, and none of these numbers divides 5" in planned("cnn", 5).warnings[0]
    assert planned("cnn", 5, {"stages": 1}).warnings == ()


def test_neighbouring_stages_share_a_host() -> None:
    """Model parallelism inside a machine, data parallelism between machines."""
    plan = planned("cnn", 4, {"stages": 2})
    assert [party.host for party in parties(plan, 4, hosts=2)] == ["host0", "host0", "host1", "host1"]
    assert [party.host for party in parties(plan, 4, hosts=4)] == ["host0", "host1", "host2", "host3"]
    between = {(t.source, t.destination) for t in declared(plan, described("cnn"), 4, hosts=2) if t.wire}
    assert between == {(0, 2), (2, 0), (1, 3), (3, 1)}


def by_hand(**changes: Any) -> str:
    spec, model = job("model-parallel", 2), described("cnn")
    plan = build_plan(spec, model)
    assert isinstance(plan, Plan)
    if "layer" in changes:
        name = changes.pop("layer")
        mine = {key: changes.pop(key) for key in ("placement", "place", "exchange") if key in changes}
        layers = tuple(replace(x, **mine) if x.layer == name else x for x in plan.layers)
        plan = replace(plan, layers=layers)
    with pytest.raises(UserError) as caught:
        resolve(replace(plan, **changes), model, cluster_of(spec), spec)
    return str(caught.value)


def test_plans_by_hand_that_nobody_could_run() -> None:
    assert "the cuts put this layer into stage 1" in by_hand(layer="6", place=0)
    assert "there are 2 stages, from 0" in by_hand(layer="6", place=2)
    assert "the other layers are in stages" in by_hand(layer="6", placement="replicated", place=None)
    assert "there is one replica of the model. Use none" in by_hand(layer="6", exchange="ring-allreduce")
    assert "2 stages have 1 edges between them" in by_hand(edges=())
    assert "Say how many stages there are" in by_hand(pipeline=None)
