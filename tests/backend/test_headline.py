"""What a headline says of jobs whose figures are known. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from backend.figures.headline import Contender, headline
from backend.figures.shared_units import SharedUnits, parts_of
from backend.figures.speed import Speed
from engine.telemetry.comparison import RunConditions
from engine.telemetry.estimates import Estimate


def contender(name: str, ms: float, exposed: dict[int, float], compute: float = 10, **run: Any) -> Contender:
    interval = (64e3 / (ms + 0.1), 64e3 / (ms - 0.1))
    speed = Speed(
        first=5,
        last=50,
        iteration_ns=ms * 1e6,
        interval_ns=((ms - 0.1) * 1e6, (ms + 0.1) * 1e6),
        error=0.01,
        throughput=Estimate(value=64e3 / ms, interval=interval),
        exposed_ns=None,
        compute_ns=compute * 1e6,
    )
    conditions = RunConditions(
        samples_per_s=speed.throughput, name=name, model="m", data="d", precision="float32", global_batch=64,
        workers=2, threads=1, device="cpu", alone=True,
    )  # fmt: skip
    return Contender(
        run=replace(conditions, **run),
        speed=speed,
        exposed_ns={k: v * 1e6 for k, v in exposed.items()},
        blocker=lambda _: None,
    )


def sends(who: Contender, count: float, *, link_limits: bool = True) -> Contender:
    return replace(who, sent_bytes=count, link_limits=lambda: link_limits)


A, B = contender("a", 10, {0: 1}), contender("b", 20, {0: 9})


@pytest.mark.parametrize(
    ("contenders", "said"),
    [
        ([A, B], "In one run of each, a finishes a step 2.00x sooner than b: conv0 no longer waits"),
        (
            [contender("a", 10, {0: 4}), B],
            "In one run of each, a finishes a step 2.00x sooner than b: conv0 waits 5 ms less",
        ),
        (  # what PyTorch's own collectives hold up is known for no layer
            [contender("a", 10, {-1: 4}), B],
            "In one run of each, a finishes a step 2.00x sooner than b: conv0 waits 5 ms less",
        ),
        (  # it waits nearly as long, for another layer
            [contender("a", 10, {1: 5}), B],
            "In one run of each, a finishes a step 2.00x sooner than b: a worker waits 4 ms less per step on average",
        ),
        ([contender("a", 10, {1: 8.5}), B], "In one run of each, a finishes a step 2.00x sooner than b"),
        (
            [contender("a", 10, {}), contender("b", 20, {}, compute=20)],
            "In one run of each, a finishes a step 2.00x sooner than b: it computes 10 ms less",
        ),
        (
            [contender("a", 10, {}), contender("b", 20, {}), contender("c", 10, {})],
            "In one run of each, a finishes a step 2.00x sooner than b, level with c",
        ),
        (
            [A, B, contender("c", 15, {}, compute=20)],
            "In one run of each, a finishes a step 1.50x sooner than c (it computes 10 ms less), 2.00x sooner than b "
            "(conv0 no longer waits)",
        ),
        (
            [sends(A, 650_000), sends(B, 12_800_000)],
            "In one run of each, a finishes a step 2.00x sooner than b: it sends 634.8 KiB per step instead of "
            "12.2 MiB",
        ),
        (
            [sends(A, 650_000), sends(B, 12_800_000, link_limits=False)],
            "In one run of each, a finishes a step 2.00x sooner than b: conv0 no longer waits",
        ),
        (
            [sends(A, 10_000_000), sends(B, 12_800_000)],
            "In one run of each, a finishes a step 2.00x sooner than b: conv0 no longer waits",
        ),
        (
            [A, contender("one", 15, {}, workers=1)],
            "In one run of each, a finishes a step 1.50x sooner than one (strong scaling: equal global batch, "
            "2 and 1 workers)",
        ),
        (
            [contender("a", 10, {}, alone=False), contender("b", 20, {})],
            "In one run of each, a finishes a step 2.00x sooner than b. Mind: another job ran on the machine during a",
        ),
        (
            [A, B, contender("c", 10, {}, threads=2)],
            "In one run of each, a finishes a step 2.00x sooner than b: conv0 no longer waits. c does not compare with "
            "a (threads per worker: 1 in a, 2 in c; they must be equal: submit one of them with "
            "the other's cluster.threads)",
        ),
    ],
)
def test_headlines_of_what_is_certain(contenders: list[Contender], said: str) -> None:
    assert headline(contenders, "conv{}".format) == said


BUCKET = SharedUnits(
    parts={7: parts_of({0: 10, 1: 30, 2: 60})}, begins={0: 7}, awaited=dict.fromkeys(range(3), 7)
)


@pytest.mark.parametrize(
    ("fast", "slow", "ahead", "said"),
    [
        ({0: 1}, {0: 9}, None, "the bucket of conv0 to conv2 is no longer waited for"),
        ({0: 1}, {0: 9}, 5, "conv5 no longer blocks the bucket of conv0 to conv2"),
        ({1: 2, 2: 2}, {0: 9}, None, "the bucket of conv0 to conv2 is waited for 5 ms less"),
        ({1: 2, 2: 2}, {0: 6, 1: 3}, 5, "the bucket of conv0 to conv2 is waited for 5 ms less behind conv5"),
        ({}, {5: 9}, 0, "the bucket of conv0 to conv2 no longer blocks conv5"),
    ],
)
def test_a_wait_for_a_bucket_is_for_all_its_layers(
    fast: dict[int, float], slow: dict[int, float], ahead: int | None, said: str
) -> None:
    bucketed = replace(contender("b", 20, slow), units=lambda: BUCKET, blocker=lambda _: ahead)
    text = headline([contender("a", 10, fast), bucketed], "conv{}".format)
    assert text == f"In one run of each, a finishes a step 2.00x sooner than b: {said}"


def test_what_comes_in_the_faster_ones_bucket_waits_as_long_as_it() -> None:
    """Its layer itself has no wait there: forward waits where it gets to the bucket."""
    bucketed = replace(contender("a", 10, {0: 4}), units=lambda: BUCKET)
    text = headline([bucketed, contender("b", 20, {2: 9})], "conv{}".format)
    assert text == "In one run of each, a finishes a step 2.00x sooner than b: conv2 waits 5 ms less"


def test_what_is_missing_is_said_with_its_number() -> None:
    early = {"samples_per_s": Estimate(value=6400.0), "missing_steps": 9}
    text = headline([contender("a", 10, {}, **early), B], str)
    assert text == "Too early to tell: 9 more steps of a. So far a makes 2.00x the samples/s of b"
    ended = headline([contender("a", 10, {}, **early, ended=True), B], str)
    assert (
        ended
        == "Nobody can tell for sure: a ended 9 steps too early. So far a makes 2.00x the samples/s of b"
    )
    three = headline([A, B, contender("c", 10, {}, samples_per_s=None, missing_steps=1)], str)
    assert three.endswith("no longer waits. Missing: 1 more step of c")


def unsteady(who: Contender, low: float, high: float) -> Contender:
    """Its throughput may as well be so many times what was measured."""
    rate = who.run.samples_per_s
    assert rate is not None
    wide = Estimate(value=rate.value, interval=(rate.value * low, rate.value * high))
    return replace(who, run=replace(who.run, samples_per_s=wide))


def test_a_large_ratio_that_may_be_chance_is_never_called_level() -> None:
    wild = unsteady(contender("c", 15.8, {}), 0.5, 1.7)
    alone = headline([A, wild], "conv{}".format)
    assert alone.startswith("Too few steps to tell: a step takes a 10 ms (9.9 ms to 10 ms), c 16 ms (")
    assert alone.endswith("(a is 1.58x as fast, which may be chance: 0.93x to 3.16x)")
    text = headline([A, B, wild], "conv{}".format)
    assert text == (
        "In one run of each, a finishes a step 1.58x sooner than c (which may be chance: 0.93x to 3.16x), 2.00x sooner "
        "than b (conv0 no longer waits)"
    )
