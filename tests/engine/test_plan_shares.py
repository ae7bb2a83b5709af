"""Shares of server shards where the hosts' ports differ: no others give a shorter longest port."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from engine.errors import UserError
from engine.plan.cluster import parties
from engine.plan.description import ModelDescription
from engine.plan.plan import Plan, Servers
from engine.plan.units import cut
from engine.strategies import build_plan
from tests.plans import job, made_up, resolved, served

MODEL = made_up(*((1000,) for _ in range(60)))
"""Layers enough to be shared out to a hundredth."""
CLUSTERS = [
    (4, ["150Mbit", "600Mbit", "600Mbit", "600Mbit"], "beside", None),
    (3, ["100Mbit", "1Gbit", "300Mbit"], "beside", None),
    (4, ["300Mbit", "400Mbit", "500Mbit", "600Mbit"], "beside", None),
    (2, ["100Mbit", "1Gbit"], "beside", None),
    (3, ["100Mbit", "1Gbit"], "beside", None),
    (5, ["1Gbit", "200Mbit", "400Mbit"], "beside", 3),
    (3, ["1Gbit", "1Gbit", "1Gbit", "100Mbit", "500Mbit", "500Mbit"], "dedicated", 3),
    (2, ["1Gbit", "1Gbit", "100Mbit"], "dedicated", 4),
    (3, ["794Mbit", "311Mbit", "260Mbit"], "beside", 2),
    (3, ["400Mbit", "100Mbit", "150Mbit", "100Mbit"], "dedicated", 2),
    (4, ["100Mbit", "700Mbit"], "beside", 3),
    (7, ["400Mbit", "100Mbit", "300Mbit"], "dedicated", 4),
    (1, ["500Mbit", "400Mbit"], "dedicated", 2),
]
"""Workers, hosts' rates, where the shards stand, and how many."""


def planned(workers: int, rates: list[str], where: str, servers: int | None, **options: object) -> Plan:
    asked = {"where": where, "servers": servers, "slice_size": 10, **options}
    network = {"hosts": len(rates), "host_rates": rates}
    plan = build_plan(job("p3", workers, asked, network=network), MODEL)
    assert isinstance(plan, Plan)
    return plan


def longest_s(plan: Plan, workers: int, rates: list[float], by_shard: list[float]) -> float:
    """Of the hosts' ports, counted message by message; `by_shard`: what each shard serves."""
    ports: Counter[str] = Counter()
    everybody = parties(plan, workers, len(rates))
    for worker in everybody[:workers]:
        for home in everybody:
            if home.shard is not None and home.host != worker.host:
                for host in (
                    worker.host,
                    home.host,
                ):  # a gradient out of one, into the other; the answer likewise
                    ports[host] += by_shard[home.shard]
    return max(ports[f"host{number}"] / rate for number, rate in enumerate(rates))


def divisions(parts: int, of: int) -> Iterator[list[float]]:
    """All ways to share out `of` among so many."""
    if parts == 1:
        yield [of]
        return
    for first in range(of + 1):
        for rest in divisions(parts - 1, of - first):
            yield [first, *rest]


def served_by(plan: Plan, model: ModelDescription) -> list[float]:
    """The part of all elements that each shard serves."""
    counts: Counter[int | None] = Counter()
    for unit in cut(plan, model):
        counts[unit.shard] += unit.count
    return [counts[shard] / counts.total() for shard in range(plan.servers.count)]


@pytest.mark.parametrize(("workers", "rates", "where", "servers"), CLUSTERS)
def test_no_shares_make_the_longest_port_shorter(
    workers: int, rates: list[str], where: str, servers: int | None
) -> None:
    plan = planned(workers, rates, where, servers)
    numbers = [float(rate.replace("Gbit", "000").replace("Mbit", "")) for rate in rates]
    found = served_by(plan, MODEL)
    steps = 12
    least = min(
        longest_s(plan, workers, numbers, [one / steps for one in shares])
        for shares in divisions(plan.servers.count, steps)
    )
    assert longest_s(plan, workers, numbers, found) <= 1.02 * least + 1e-12
    no_longer = [
        max(shares)
        for shares in divisions(plan.servers.count, steps)
        if longest_s(plan, workers, numbers, [one / steps for one in shares]) <= 1.001 * least
    ]
    assert max(found) <= min(no_longer) / steps + 1 / steps, "others as good are more even"


def test_shares_that_layers_cannot_be_dealt_by_are_not_taken() -> None:
    """One layer is nearly all: wherever it lives, its host's port is the longest."""
    model = made_up((100_000,), (10,), (10,))
    network = {"hosts": 3, "host_rates": ["100Mbit", "400Mbit", "150Mbit"]}
    plan = build_plan(job("parameter-server", 3, network=network), model)
    assert isinstance(plan, Plan)
    rates = [100.0, 400.0, 150.0]
    equal = build_plan(job("parameter-server", 3, {"shares": "equal"}, network=network), model)
    assert isinstance(equal, Plan)
    found, alike = (longest_s(one, 3, rates, served_by(one, model)) for one in (plan, equal))
    assert found <= alike
    assert bool(plan.servers.shares) == bool(plan.reasons) == (found < 0.98 * alike)


def test_a_slow_port_has_no_shard_where_its_worker_alone_bounds_the_step_and_the_others_serve_alike() -> None:
    plan = planned(4, ["150Mbit", "600Mbit", "600Mbit", "600Mbit"], "beside", None)
    assert plan.servers.shares == (0, 0.333333, 0.333333, 0.333333)
    assert served_by(plan, MODEL) == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3], abs=0.01)
    (why,) = plan.reasons
    assert "host 0: 0 %, host 1: 33 %, host 2: 33 %, host 3: 33 % of what is served" in why
    assert "host 0's port (150 Mbit/s) would be busy longest; now the longest is busy for 67 % of that" in why


@pytest.mark.parametrize(
    ("workers", "rates", "options"),
    [
        (4, ["300Mbit"] * 4, {}),
        (4, ["150Mbit", "600Mbit", "600Mbit", "600Mbit"], {"shares": "equal"}),
        (2, ["100Mbit", "1Gbit"], {}),
    ],
    ids=["equal ports", "asked for", "a worker on each of two hosts"],
)
def test_shards_serve_alike(workers: int, rates: list[str], options: dict[str, str]) -> None:
    plan = planned(workers, rates, "beside", None, **options)
    assert len({*plan.servers.shares}) <= 1
    assert plan.reasons == ()
    counts = served_by(plan, MODEL)
    assert max(counts) - min(counts) <= 0.001


def test_equal_shares_are_dealt_as_ever() -> None:
    equal, plain = (
        cut(planned(4, ["300Mbit"] * 4, "beside", None, **options), MODEL)
        for options in ({"shares": "equal"}, {})
    )
    assert equal == plain


def test_strategies_that_want_other_shares_are_not_combined() -> None:
    overrides = [{"layers": "l59", "strategy": "parameter-server", "options": {"shares": "equal"}}]
    with pytest.raises(UserError, match="with equal shares"):
        build_plan(job("p3", 4, overrides=overrides), MODEL)


@pytest.mark.parametrize("unit", ["slice", "split", "layer"])
def test_what_is_cut_follows_the_shares(unit: str) -> None:
    servers = Servers(
        count=4, where="dedicated", shares=(3, 0, 1, 2), split_over=10 if unit == "split" else None
    )
    names = [layer.name for layer in MODEL.layers]
    layers = [served(n, unit="slice", size=10) if unit == "slice" else served(n) for n in names]
    plan = resolved(MODEL, *layers, servers=servers)
    assert served_by(plan, MODEL) == pytest.approx([1 / 2, 0, 1 / 6, 1 / 3], abs=0.02)


def test_a_share_that_is_less_than_an_element_has_no_unit() -> None:
    model = made_up((3,))
    servers = Servers(count=3, where="dedicated", shares=(100, 1, 100), split_over=1)
    units = cut(resolved(model, served("l0"), servers=servers), model)
    assert [(unit.shard, unit.count) for unit in units] == [(0, 1), (2, 2)]


@pytest.mark.parametrize(
    ("shares", "rule"),
    [
        ((1.0,), "1 shares for 2 shards"),
        ((0.0, 0.0), "not all may be 0"),
        ((-1.0, 2.0), "from 0 on"),
        ((float("nan"), 1.0), "from 0 on"),
        ((float("inf"), 1.0), "from 0 on"),
    ],
)
def test_bad_shares_are_refused(shares: tuple[float, ...], rule: str) -> None:
    with pytest.raises(UserError, match="shares") as refused:
        Servers(count=2, shares=shares)
    assert rule in str(refused.value)
