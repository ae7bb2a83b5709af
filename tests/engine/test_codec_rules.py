"""What cannot combine with codecs whose messages are votes, or factors of matrices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.errors import UserError
from engine.plan.plan import Plan, Servers
from engine.strategies import build_plan
from tests.plans import described, job, made_up, resolved, served

MODEL = made_up((4, 2), (6,), ((3, "float32", False),))
ONE = Servers(count=1)


@pytest.mark.parametrize(
    ("strategy", "options", "message"),
    [
        ("ring-allreduce", {}, "with ring-allreduce nobody hears all workers'"),
        ("parameter-server", {"update": "server"}, "a server that updates answers with parameters"),
        ("async-sgd", {}, "under asynchronous a contribution is applied when it comes"),
        ("model-average", {}, "votes have no size"),
        ("decentralized-async", {}, "votes have no size"),
    ],
)
def test_votes_are_counted_by_servers(strategy: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        build_plan(job(strategy, 2, {"codec": "signsgd", **options}), MODEL)
    assert caught.value.remedy.startswith("Use a server that does not update (parameter-server with update")


def test_where_messages_are_votes_workers_update() -> None:
    """Unless that is said, and then nothing may be meant for servers that do."""
    mine = served("l0", codec="signsgd")
    plan = resolved(MODEL, mine, served("l1"), servers=ONE)
    assert [layer.update for layer in plan.layers] == ["worker", "server"]
    assert not plan.warnings
    with pytest.raises(UserError, match="a server that does not update answers with sums"):
        resolved(MODEL, replace(mine, answers="fp16"), served("l1"), servers=ONE)


@pytest.mark.parametrize(
    ("strategy", "options", "site"),
    [
        ("p3", {}, "worker"),
        ("p3", {"update": "server"}, "server"),
        ("p3", {"answers": "fp16"}, "server"),
        ("async-sgd", {}, "server"),
    ],
    ids=str,
)
def test_where_sums_take_all_workers_in_workers_update(
    strategy: str, options: dict[str, Any], site: str
) -> None:
    """Unless that is said, or how servers answer, or workers drift, so that there is no sum of all."""
    plan = build_plan(job(strategy, 2, {"codec": "powersgd", **options}), MODEL)
    assert isinstance(plan, Plan)
    assert {layer.update for layer in plan.layers} == {site}


def test_majorities_are_not_clipped() -> None:
    """Their norm says nothing of gradients: a limit would be another learning rate, without a word."""

    def planned(codec: str, **training: Any) -> object:
        spec = job("parameter-server", 2, {"codec": codec}, training={"steps": 4, **training})
        return build_plan(spec, MODEL)

    assert planned("signsgd")
    assert planned("one-bit", clip_norm=1.0)
    with pytest.raises(UserError, match=r"majorities have one norm, the square root of the number") as caught:
        planned("signsgd", clip_norm=1.0)
    assert (caught.value.field, caught.value.value) == ("training.clip_norm", 1.0)
    assert caught.value.remedy == "Leave it out, and lower the learning rate"


@pytest.mark.parametrize("options", [{"codec": "powersgd"}, {"answers": "powersgd"}], ids=str)
def test_what_factors_matrices_is_rehearsed_at_true_sizes(options: dict[str, Any]) -> None:
    def planned_at(scale: float) -> object:
        rehearsal = {"device": "p100", "scale": scale}
        return build_plan(job("p3", 2, options, fidelity="rehearse", rehearsal=rehearsal), described("cnn"))

    assert planned_at(1)
    with pytest.raises(
        UserError, match=r"= 'powersgd': it factors matrices.*1/10 of .*Use rehearsal.scale 1"
    ):
        planned_at(10)
