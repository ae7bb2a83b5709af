"""Which runs may be compared, and what a reader must know of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.telemetry.comparison import (
    Judgement,
    RunConditions,
    SpeedUp,
    certainty,
    outcome,
    scaling_of,
    speed_up,
)
from engine.telemetry.estimates import Estimate

BASE = RunConditions(
    samples_per_s=Estimate(value=100.0),
    name="base",
    model="resnet",
    data="digits",
    precision="float32",
    global_batch=64,
    workers=1,
    threads=1,
    device="cpu",
    alone=True,
)
GPU = replace(BASE, device="cuda", device_models=("NVIDIA H200",))


def test_speed_up_in_strong_and_in_weak_scaling() -> None:
    strong = replace(BASE, samples_per_s=Estimate(value=170.0), workers=2)
    assert speed_up(strong, BASE, "strong") == SpeedUp(value=1.7, scaling="strong")
    weak = replace(strong, global_batch=128)
    assert speed_up(weak, BASE, "weak").value == 1.7
    assert (
        "submit one of them with a training.global_batch" in speed_up(strong, BASE, "weak").refused[0].lower()
    )
    assert (
        "submit one of them with the other's training.global_batch"
        in speed_up(weak, BASE, "strong").refused[0].lower()
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"threads": 2}, "threads per worker: 2 here, 1 in the baseline"),
        ({"device": "cuda"}, "device: cuda here, cpu in the baseline"),
        ({"model": "vgg"}, "work: vgg on digits, float32 here"),
        ({"samples_per_s": None}, "this job has none after the warm-up"),
    ],
)
def test_unequal_runs_are_not_compared(change: dict, reason: str) -> None:
    result = speed_up(replace(BASE, **change), BASE, "strong")
    assert result.value is None
    assert reason in result.refused[0]


def test_only_jobs_whose_workers_are_slowed_alike_compare() -> None:
    slowed = replace(BASE, slowed="worker 1 slowed: computes 2x as long")
    worse = replace(BASE, slowed="worker 1 slowed: computes 4x as long")
    assert speed_up(slowed, slowed) == SpeedUp(value=1.0, scaling="strong")
    assert speed_up(slowed, BASE).refused == (
        "injected faults: worker 1 slowed: computes 2x as long here, none in the baseline; they must be equal: "
        "submit one of them with the other's faults",
    )
    assert not speed_up(slowed, worse).comparable
    assert outcome([BASE, slowed]).leader is None


def test_company_during_a_run_is_said() -> None:
    result = speed_up(replace(BASE, alone=False), BASE, "strong")
    assert (result.value, result.caveats) == (1.0, ("another job ran on the machine during this job",))
    two = replace(BASE, workers=2)
    result = speed_up(replace(two, rate="100Mbit"), two, "strong")
    assert result.caveats == ("network rate: 100Mbit here, unlimited in the baseline",)
    assert speed_up(replace(two, rate="100Mbit"), BASE, "strong").caveats == (), "one worker uses no network"


def test_models_of_devices_that_differ_do_not_compare() -> None:
    other = replace(GPU, device_models=("NVIDIA A100",), name="other")
    refused = speed_up(other, GPU, "strong")
    assert (refused.value, refused.refused) == (
        None,
        (
            "device model: NVIDIA A100 here, NVIDIA H200 in the baseline; they must be equal: run both on devices of "
            "one model",
        ),
    )
    mixed = replace(GPU, device_models=("NVIDIA A100", "NVIDIA H200"))
    assert "NVIDIA A100 and NVIDIA H200 here" in speed_up(mixed, GPU, "strong").refused[0]
    assert speed_up(GPU, GPU, "strong") == SpeedUp(value=1.0, scaling="strong")
    assert outcome([GPU, other]).refused == (
        "device model: NVIDIA H200 in base, NVIDIA A100 in other; they must be equal: run both on devices of one model",
    )


def test_a_gpu_that_nobody_named_is_said_not_compared_unseen() -> None:
    unnamed = replace(GPU, device_models=())
    assert speed_up(unnamed, GPU, "strong") == SpeedUp(
        value=1.0, scaling="strong", caveats=("device model: that of this job is not known",)
    )
    assert speed_up(GPU, unnamed, "strong").caveats == ("device model: that of the baseline is not known",)
    assert speed_up(BASE, BASE, "strong").caveats == (), "CPU slots of one machine"
    assert outcome([unnamed, GPU]).refused == ()


def test_a_limit_that_software_keeps_is_said() -> None:
    limited = replace(BASE, workers=2, rate="300 Mbit/s", limited_by_software=True)
    link = replace(BASE, workers=2, rate="300 Mbit/s")
    assert speed_up(limited, limited, "strong").caveats == (
        "network rate: kept in software, not by a link, in this job and the baseline",
    )
    assert speed_up(limited, link, "strong").caveats == (
        "network rate: kept in software, not by a link, in this job",
    )
    assert speed_up(link, link, "strong").caveats == ()


def test_a_speed_up_is_as_sure_as_what_it_rests_on() -> None:
    sure = replace(BASE, samples_per_s=Estimate(value=100.0, interval=(98.0, 103.0)))
    faster = replace(BASE, samples_per_s=Estimate(value=150.0, interval=(140.0, 155.0)))
    found = speed_up(faster, sure, "strong")
    assert found.value == 1.5
    assert found.interval is not None
    low, high = found.interval
    assert 140 / 103 < low < 140 / 100 < found.value < 155 / 100 < high < 155 / 98
    assert speed_up(faster, BASE, "strong").interval is None


@pytest.mark.parametrize(
    ("changes", "scaling"),
    [({}, "strong"), ({"workers": 2}, "strong"), ({"workers": 2, "global_batch": 128}, "weak"),
     ({"workers": 2, "global_batch": 96}, "strong")],
)  # fmt: skip
def test_the_scaling_is_what_is_equal(changes: dict[str, Any], scaling: str) -> None:
    assert scaling_of(replace(BASE, **changes), BASE) == scaling


SURE = replace(BASE, samples_per_s=Estimate(value=100.0, interval=(98.0, 102.0)))
FAST = replace(BASE, samples_per_s=Estimate(value=150.0, interval=(147.0, 153.0)), name="fast")
EARLY = replace(FAST, samples_per_s=Estimate(value=150.0), missing_steps=9)
SILENT = replace(FAST, samples_per_s=None, missing_steps=14)

PAIRS: dict[str, tuple[dict[str, Any], str, str]] = {
    # what the faster run has that the base has not: verdict, what is said of it
    "nothing": ({}, "faster", ""),
    "as fast": ({"samples_per_s": SURE.samples_per_s}, "level", ""),
    "hardly faster": ({"samples_per_s": Estimate(value=100.9, interval=(100.8, 101.0))}, "level", ""),
    "slower": ({"samples_per_s": Estimate(value=50.0, interval=(49.0, 51.0))}, "slower", ""),
    "two workers, one batch": ({"workers": 2}, "faster", ""),
    "two workers, two batches": ({"workers": 2, "global_batch": 128}, "faster", ""),
    "two workers, half a batch more": ({"workers": 2, "global_batch": 96}, "refused", "global batch: 96"),
    "model": ({"model": "vgg"}, "refused", "work: vgg on digits, float32"),
    "data": ({"data": "noise"}, "refused", "work: resnet on noise, float32"),
    "precision": ({"precision": "bf16"}, "refused", "work: resnet on digits, bf16"),
    "threads": ({"threads": 2}, "refused", "threads per worker: 2"),
    "device": ({"device": "cuda"}, "refused", "device: cuda"),
    "no device yet": ({"device": "auto"}, "faster", ""),
    "a rehearsal": ({"device": "rehearsed: P4000"}, "refused", "device: rehearsed: P4000"),
    "a straggler": ({"slowed": "worker 1 slowed: computes 2x as long"}, "refused", "injected faults: worker 1 slowed"),
    "company": ({"alone": False}, "faster", "another job ran on the machine during fast"),
    "rate, one worker": ({"rate": "1 Gbit/s"}, "faster", ""),
    "setting": ({"settings": (("optimizer", "adam"),)}, "faster", "optimizer: adam in fast, sgd in base"),
    "setting that the other one has not": ({"settings": (("magic", "on"),)}, "faster", ""),
    "too early": ({"samples_per_s": Estimate(value=150.0), "missing_steps": 9}, "unsure", "9 more steps of fast"),
    "ended too early": (
        {"samples_per_s": Estimate(value=150.0), "missing_steps": 1, "ended": True},
        "unsure",
        "fast ended 1 step too early",
    ),
    "no figures yet": ({"samples_per_s": None, "missing_steps": 14}, "unknown", "14 more steps"),
    "ended without figures": (
        {"samples_per_s": None, "missing_steps": 12, "ended": True}, "unknown", "before its warm-up was over",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "verdict", "said"), PAIRS.values(), ids=PAIRS)
def test_two_runs_are_judged_in_one_way(change: dict[str, Any], verdict: str, said: str) -> None:
    """The speed-up over a baseline, which tables show, and the outcome, which headlines say, never disagree."""
    base, other = replace(SURE, settings=(("optimizer", "sgd"),)), replace(FAST, **change)
    found, turned = speed_up(other, base, named=True), speed_up(base, other, named=True)
    assert found.verdict == verdict
    assert found.comparable == (verdict != "refused")
    assert said in (found.caveat or "")
    assert bool(said) == bool(found.caveat)
    turn = {"faster": "slower", "slower": "faster"}
    assert turned.verdict == turn.get(verdict, verdict), "the same, seen from the other side"
    whole = outcome([base, other])
    assert bool(whole.refused) == (verdict == "refused")
    assert bool(whole.waiting) == (verdict in ("unsure", "unknown"))
    if verdict == "refused":
        assert whole.refused == turned.refused
    elif whole.leader is not None:
        ((_, gain),) = whole.others
        first = (base, other)[whole.leader]
        assert gain == speed_up(first, other if first is base else base, named=True)
        assert gain.verdict in ("faster", "level", "unsure", "unknown")
    assert whole.final == (verdict in ("faster", "slower", "level") or other.ended) or verdict == "refused"


def test_what_a_baseline_differs_in_is_said_without_names() -> None:
    found = speed_up(replace(FAST, threads=2), SURE)
    assert found.refused == (
        "threads per worker: 2 here, 1 in the baseline; they must be equal: submit one of them "
        "with the other's cluster.threads",
    )


def test_of_three_the_one_that_does_not_compare_is_named_and_the_others_ranked() -> None:
    other = replace(
        FAST, name="other", threads=2, samples_per_s=Estimate(value=900.0, interval=(890.0, 910.0))
    )
    whole = outcome([SURE, FAST, other])
    assert whole.leader == 1
    assert [(place, gain.verdict) for place, gain in whole.others] == [(2, "refused"), (0, "faster")]
    assert outcome([SURE]) == Judgement(leader=None, refused=("base is alone: a comparison needs two jobs",))
    assert outcome([SURE, SILENT]).waiting == ("14 more steps of fast",)
    assert outcome([SURE, EARLY, SILENT]).leader == 1


@pytest.mark.parametrize(
    ("value", "interval", "proves", "verdict"),
    [
        (1.72, (1.65, 1.8), "certain", "faster"),
        (0.5, (0.45, 0.6), "certain", "slower"),
        (1.58, (0.95, 2.62), "chance", "chance"),
        (1.003, (0.6, 1.7), "chance", "chance"),
        (0.8, (0.5, 1.2), "chance", "chance"),
        (1.003, (0.99, 1.02), "level", "level"),
        (1.005, (1.001, 1.009), "level", "level"),
    ],
)
def test_only_what_is_known_to_be_close_is_level(
    value: float, interval: tuple[float, float], proves: str, verdict: str
) -> None:
    assert certainty(value, interval) == proves
    assert certainty(1 / value, (1 / interval[1], 1 / interval[0])) == proves, "seen from the other side"
    assert SpeedUp(value=value, interval=interval, scaling="strong").verdict == verdict
