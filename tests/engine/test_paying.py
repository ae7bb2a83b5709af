"""From which rate down a codec pays: the formula, what plans move and encode, and what is measured."""

from __future__ import annotations

import math
from typing import Any

import pytest

from engine import codec_cost
from engine.axes.codec import CODEC
from engine.errors import UserError
from engine.paying import where_codecs_pay
from engine.plan.columns import aligned
from engine.plan.paying import CodecCost, CodecCosts, Load, Paying, paying, table
from engine.plan.plan import Plan
from engine.simulate.loads import load_of
from engine.strategies import build_plan
from tests.jobs import describe, job

MODEL = describe(job(model={"name": "mlp"}))
COUNT = sum(p.count for p in MODEL.parameters)
COST = CodecCost(encode_ns=3.0, decode_ns=1.0)
COSTS = CodecCosts(by_codec={row.name: COST for row in CODEC})
WORKERS = 4


def load(strategy: str, **options: Any) -> Load:
    spec = job(strategy={"name": strategy, "options": options}, cluster={"workers": WORKERS})
    plan = build_plan(spec, MODEL)
    assert isinstance(plan, Plan)
    return load_of(plan, MODEL, WORKERS, None, COST, most=10_000)


def found(strategy: str, costs: CodecCosts = COSTS, **options: Any) -> dict[str, Paying]:
    spec = job(strategy={"name": strategy, "options": options}, cluster={"workers": WORKERS})
    return {one.codec: one for one in where_codecs_pay(spec, MODEL, costs=costs)}


def test_it_pays_where_the_link_saves_more_than_the_processor_takes() -> None:
    """10 MB less on a link, and 2 ns for each of 4 million elements: 8 ms at 10 Gbit/s."""
    cost = CodecCosts(by_codec={"int8": CodecCost(encode_ns=1.5, decode_ns=0.5)})
    as_is, mine = (
        Load(port_bytes=14_000_000),
        Load(port_bytes=4_000_000, encoded=4_000_000, decoded=4_000_000),
    )
    one = paying(as_is, mine, "int8", cost)
    assert one.seconds == pytest.approx(8e-3)
    assert one.below_bps == pytest.approx(10e9)
    assert one.verdict == "pays below 10 Gbit/s"
    longer = paying(mine, as_is, "int8", cost)
    assert longer.below_bps is None
    assert "never pays here" in longer.verdict
    assert "no sockets" in paying(as_is, mine, "int8", CodecCosts(why="no sockets")).verdict
    assert "any rate" in paying(as_is, Load(port_bytes=1), "int8", cost).verdict


def test_workers_in_a_ring_encode_at_each_hop() -> None:
    """n - 1 parts on the way to a sum, and what is finished once; each worker decodes as many, and its own."""
    here = load("ring-allreduce", codec="fp16")
    assert here.port_bytes == 2 * (WORKERS - 1) * COUNT * 2 // WORKERS
    assert here.encoded == COUNT
    assert here.decoded == pytest.approx((2 * (WORKERS - 1) + 1) / WORKERS * COUNT, abs=1)
    assert load("ring-allreduce") == Load(port_bytes=2 * here.port_bytes), "as it is, nothing is encoded"


def test_what_is_summed_in_phases_is_made_once() -> None:
    here = load("ring-allreduce", codec="powersgd")
    assert (here.encoded, here.decoded) == (COUNT, COUNT)
    assert here.port_bytes < load("ring-allreduce", codec="fp16").port_bytes


def test_the_busiest_party_counts_where_servers_decode_for_all() -> None:
    here = load("parameter-server", codec="int8", servers=1, where="dedicated")
    assert (here.encoded, here.decoded) == (0, WORKERS * COUNT)
    assert here.port_bytes == WORKERS * COUNT * 4, "parameters return as they are"
    cheap = CodecCost(encode_ns=30.0, decode_ns=1.0)
    spec = job(
        strategy={
            "name": "parameter-server",
            "options": {"codec": "int8", "servers": 1, "where": "dedicated"},
        },
        cluster={"workers": WORKERS},
    )
    plan = build_plan(spec, MODEL)
    assert isinstance(plan, Plan)
    assert load_of(plan, MODEL, WORKERS, None, cheap, most=10_000).encoded == COUNT, (
        "a worker works longer then"
    )


def test_factors_are_encoded_once_and_decoded_by_all() -> None:
    here = load("late-multiply", codec="int8", layers="all")
    assert here.encoded > 0
    assert here.decoded == pytest.approx(WORKERS * here.encoded, rel=0.5)


def test_every_codec_is_answered_for() -> None:
    each = found("p3", codec="top-k", codec_options={"ratio": 0.1})
    assert list(each) == [row.name for row in CODEC if row.available and row.name != "fp32"]
    assert [one.codec for one in each.values() if one.mine] == ["top-k"]
    usual = found("p3")["top-k"]
    assert usual.port_bytes is not None
    assert (each["top-k"].port_bytes or 0) > usual.port_bytes, "the job's own has its options"
    assert "momentum" in each["dgc"].why
    assert each["dgc"].below_bps is each["dgc"].port_bytes is None
    for one in each.values():
        assert one.why or (one.below_bps is not None and math.isfinite(one.below_bps) and one.below_bps > 0)
    lines = aligned(table(list(each.values())))
    assert len(lines) == 1 + len(each)
    assert any("top-k (this job's)" in line for line in lines)


def test_a_strategy_without_a_codec_is_refused_with_a_remedy() -> None:
    for name in ("ddp", "single"):
        with pytest.raises(UserError, match=r"has no codec.*Choose a strategy with the option codec"):
            where_codecs_pay(job(strategy={"name": name}, cluster={"workers": 1}), MODEL, costs=COSTS)


def test_costs_are_measured_of_every_codec() -> None:
    costs = codec_cost.here()
    assert not costs.why
    assert set(costs.by_codec) == {row.name for row in CODEC if row.available and "as-is" not in row.traits}
    for cost in costs.by_codec.values():
        assert 0 < cost.encode_ns < 1e5
        assert 0 < cost.decode_ns < 1e5
    assert codec_cost.here() is costs, "once"
