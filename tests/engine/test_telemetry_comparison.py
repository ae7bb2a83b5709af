"""Which runs may be compared, and what a reader must know of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.telemetry.comparison import RunConditions, SpeedUp, scaling_of, speed_up, why_not_a_race
from engine.telemetry.definitions import Estimate

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
    assert "for equal global batches ask for strong" in speed_up(strong, BASE, "weak").refused[0].lower()
    assert "for equal batches per worker ask for weak" in speed_up(weak, BASE, "strong").refused[0].lower()


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
        ("device model: NVIDIA A100 here, NVIDIA H200 in the baseline; they must be equal",),
    )
    mixed = replace(GPU, device_models=("NVIDIA A100", "NVIDIA H200"))
    assert "NVIDIA A100 and NVIDIA H200 here" in speed_up(mixed, GPU, "strong").refused[0]
    assert speed_up(GPU, GPU, "strong") == SpeedUp(value=1.0, scaling="strong")
    assert why_not_a_race([GPU, other]) == ["device model: NVIDIA H200 in base, NVIDIA A100 in other"]


def test_a_gpu_that_nobody_named_is_said_not_compared_unseen() -> None:
    unnamed = replace(GPU, device_models=())
    assert speed_up(unnamed, GPU, "strong") == SpeedUp(
        value=1.0, scaling="strong", caveats=("device model: that of this job is not known",)
    )
    assert speed_up(GPU, unnamed, "strong").caveats == ("device model: that of the baseline is not known",)
    assert speed_up(BASE, BASE, "strong").caveats == (), "CPU slots of one machine"
    assert why_not_a_race([unnamed, GPU]) == []


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


def test_a_race_names_what_differs_and_who_had_company() -> None:
    assert why_not_a_race([BASE, replace(BASE, name="other")]) == []
    assert why_not_a_race([BASE]) == ["base is alone: a race needs two jobs"]
    other = replace(BASE, name="other", threads=2, rate="1 Gbit/s", alone=False)
    assert why_not_a_race([BASE, other]) == [
        "threads per worker: 1 in base, 2 in other",
        "network rate: unlimited in base, 1 Gbit/s in other",
        "other ran at the same time as another job",
    ]
