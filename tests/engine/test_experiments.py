"""Experiments: the settings are the paper's, their jobs can be planned, and what they compute from runs is right."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from engine.benchmarks.harness.jobs import Measured
from engine.benchmarks.harness.trained import Look
from engine.experiments import (
    drawing,
    enlarged,
    lessons_table_2,
    p3_figure_7,
    p3_figure_8_9,
    p3_figure_10,
    p3_figure_11,
    p3_figure_12,
    pai_table_1,
    pai_table_2,
    pai_table_3,
)
from engine.experiments.link_bins import LinkBins, read
from engine.experiments.p3_cluster import (
    BASELINE,
    P3,
    SLICING,
    WARM_UP,
    WORKLOADS,
    compute_s,
    description,
    job,
    port_s,
)
from engine.plan.plan import Plan
from engine.strategies import build_plan
from tests.jobs import describe, succeed
from tests.jobs import job as small_job

RESNET = WORKLOADS["resnet50"]


@pytest.mark.parametrize(
    "script",
    [
        lessons_table_2,
        p3_figure_7,
        p3_figure_8_9,
        p3_figure_10,
        p3_figure_11,
        p3_figure_12,
        pai_table_1,
        pai_table_2,
        pai_table_3,
    ],
)
def test_every_script_says_what_it_does_and_where_it_writes(script) -> None:
    options = script.parser().parse_args(["--quick"])
    assert options.out.name == "results"
    assert options.out.parent.name == "experiments"
    assert f"python -m {script.__name__}" in script.__doc__


@pytest.mark.parametrize("model", WORKLOADS)
def test_every_setting_can_be_planned_and_is_labelled(model: str) -> None:
    workload = WORKLOADS[model]
    for strategy in (BASELINE, SLICING, P3):
        spec = job(workload, strategy, 4, hosts=4)
        assert isinstance(build_plan(spec, description(workload)), Plan)
        assert (spec.network.hosts, spec.scale) == (4, workload.scale)
        assert spec.rehearsed is not None
        assert f"1/{workload.scale:g}" in spec.rehearsed


def test_the_port_of_four_machines_carries_one_and_a_half_times_the_parameters() -> None:
    assert port_s(RESNET, 4) == pytest.approx(1.5 * 25_557_032 * 32 / 4e9)
    # Where the paper's P3 leaves the line.
    assert 3.8 < 4 * port_s(RESNET, 4) / compute_s(RESNET) < 4.2


def test_pais_settings_stand_where_its_table_does() -> None:
    """One device takes the paper's time, and ports and compute alone come within a tenth of all of its times."""
    assert pai_table_2.compute_s(1) == pytest.approx(pai_table_2.ALONE_S, rel=0.01)
    for workers, paper in pai_table_2.PAPER.items():
        for servers, seconds in zip((1, workers), paper, strict=True):
            plan = build_plan(pai_table_2.job(workers, servers), pai_table_2.description())
            assert isinstance(plan, Plan)
            assert plan.servers.count == servers
            least = pai_table_2.compute_s(workers) + 2 * pai_table_2.port_s(workers, servers)
            assert least == pytest.approx(seconds, rel=0.1)


def test_pais_model_average_is_compared_over_whole_periods() -> None:
    """One rate that a step's bytes fill, one that they do not; n workers take 1/n of the steps."""
    assert pai_table_3.compute_s() == pytest.approx(pai_table_3.ALONE_S, rel=0.01)
    slow, fast = (pai_table_3.port_s(gbit) / pai_table_3.compute_s() for gbit in pai_table_3.GBITS)
    assert fast < 0.5
    assert slow > 2
    specs = {name: pai_table_3.timed_job(name, 1) for name in (pai_table_3.EVERY_STEP, pai_table_3.AVERAGED)}
    assert {(spec.training.steps or 0) - WARM_UP - 1 for spec in specs.values()} == {3 * pai_table_3.PERIOD}
    plan = build_plan(specs[pai_table_3.AVERAGED], pai_table_3.description())
    assert isinstance(plan, Plan)
    assert (plan.consistency.period, plan.servers.count) == (10, 4)
    one = replace(measured(0), step_ns=((4 * 10**8,) * 9 + (14 * 10**8,), (10**8,) * 10))
    assert pai_table_3.mean_s(one) == pytest.approx(0.5 / pai_table_3.SLOW)
    rows = pai_table_3.accuracy_rows({1: [(90, 98.0), (90, 99.0)], 2: [(45, 97.0), (45, 99.5)]})
    assert rows[1] == [2, 45, "98.25 (97.00 to 99.50)", "-0.25"]


def measured(samples_per_s: float, cpu_share: float = 0.5) -> Measured:
    values = dict.fromkeys(Measured.__dataclass_fields__, 0)
    return Measured(**{**values, "step_ns": (), "samples_per_s": samples_per_s, "cpu_share": cpu_share})


def test_gains_and_lines_are_read_from_pairs() -> None:
    line = 4 * RESNET.batch / compute_s(RESNET)
    runs = {
        2.0: {BASELINE: [measured(90)], SLICING: [measured(90)], P3: [measured(99)]},
        4.0: {BASELINE: [measured(100)], SLICING: [measured(110)], P3: [measured(0.96 * line, 0.8)]},
        6.0: {name: [measured(line)] for name in (BASELINE, SLICING, P3)},
    }
    most, slicing, baseline, p3 = (each[2] for each in p3_figure_7.beside(RESNET, runs))
    assert most == f"{0.96 * line / 100:.2f} at 4 Gbit/s BUSY"
    assert slicing == "1.10 at 4 Gbit/s"
    assert baseline == f"6 Gbit/s ({100 / line:.1%} of it at 4)"
    assert p3 == f"4 Gbit/s ({99 / line:.1%} of it at 2)"
    assert [row[-1] for row in p3_figure_7.rows(RESNET, runs)] == ["50%", "80% BUSY", "50%"]


@pytest.mark.parametrize("figure", [p3_figure_7, p3_figure_10])
def test_a_figures_gains_can_be_significant(
    figure, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """As many rounds as an interval needs, which the plan says, and how long they take."""

    def race(_report, jobs, count: int, **_labels) -> dict[str, list[Measured]]:
        return {name: [measured(120 if name == P3 else 100)] * count for name in jobs}

    monkeypatch.setattr(figure, "race", race)
    figure.panel(RESNET, figure.parser().parse_args(["--out", str(tmp_path)]))
    said = capsys.readouterr().out
    assert re.match(r"P3, figure \d+: .*: about [1-9]\d*\.\d minutes\n- .*: 6 rounds of ", said), said[:300]
    assert "1.200 (1.200 to 1.200)" in said
    figure.panel(RESNET, figure.parser().parse_args(["--rounds", "2", "--out", str(tmp_path)]))
    assert "1.200 (1.200 to 1.200, only 50%)" in capsys.readouterr().out


def test_idle_bins_and_the_figure_of_them() -> None:
    link = LinkBins(
        interface="eth0",
        rate_bps=10**6,
        tx=np.array([0.0, 1.0, 0.04, 0.5]),
        rx=np.array([0.0, 0.0, 0.9, 0.5]),
    )
    assert link.idle == (0.5, 0.5, 0.25)
    assert link.both == 0.25
    joined = link.joined(3)
    assert joined.tx.tolist() == [pytest.approx(1.04 / 3)]
    assert joined.bin_ns == 3 * link.bin_ns
    drawn = drawing.utilization("a < b", [("one", link.tx, link.rx)] * 2, 0.01)
    assert len(ElementTree.fromstring(drawn).findall(".//{*}polygon")) == 4


@pytest.mark.usefixtures("gang_lane")
def test_bins_of_a_real_run_hold_what_its_worker_sent(tmp_path: Path) -> None:
    spec = small_job(
        strategy={"name": "p3", "options": {"slice_size": 500}},
        cluster={"workers": 2},
        network={"rate": "20Mbit"},
    )
    found = succeed(spec, tmp_path)
    link = read(found.launch, 1, WARM_UP)
    assert link.rate_bps == 20_000_000
    carried = link.tx.sum() * link.rate_bps * 0.01 / 8
    each_way = sum(found.summary(1)["sent_payload_bytes"].values()) / 10
    assert 5 * each_way < carried < 10 * 1.5 * each_way


def looks(*accuracies: float, seconds: float = 1.0) -> list[Look]:
    return [
        Look(time_s=seconds * at, samples=100 * at, accuracy=accuracy)
        for at, accuracy in enumerate(accuracies, 1)
    ]


@pytest.mark.parametrize("way", p3_figure_11.WAYS)
def test_figure_11_trains_alike_but_for_who_has_the_momentum(way: str) -> None:
    options = p3_figure_11.settled(p3_figure_11.parser().parse_args([]))
    for setting in p3_figure_11.SETTINGS:
        spec = p3_figure_11.job(way, setting, options)
        model = describe(spec)
        plan = build_plan(spec, model)
        assert isinstance(plan, Plan)
        assert {layer.codec for layer in plan.layers} == {"dgc" if way == "dgc" else "fp32"}
        assert spec.cluster.workers == 4
        assert spec.optimizer.learning_rate == setting.learning_rate
        codecs = {layer.encoding.options.momentum for layer in plan.layers if way == "dgc"}
        assert codecs | {spec.optimizer.options.get("momentum", 0)} == ({0.9, 0} if way == "dgc" else {0.9})
    assert len(set(p3_figure_11.SETTINGS)) == 5
    assert next(layer for layer in model.layers if layer.kind == "Conv2d").parameters[0].shape == (
        16,
        1,
        3,
        3,
    )


def test_figure_11_compares_setting_by_setting(tmp_path: Path) -> None:
    found = {
        ("p3", 1): looks(50, 95), ("dgc", 1): looks(40, 94, seconds=0.5),
        ("p3", 2): looks(60, 96), ("dgc", 2): looks(50, 96),
        ("p3", 4): looks(70, 91), ("dgc", 4): looks(60, 92),
        ("p3", 5): looks(10, 20),
    }  # fmt: skip
    assert [row[0].partition(":")[0] for row in p3_figure_11.rows(found)] == ["1", "2", "4"], (
        "of which both are there"
    )
    assert p3_figure_11.rows(found)[0][1:] == ["95.00", "94.00", "+1.00", "2", "1", "2.00"]
    claims = {row[0]: row[2] for row in p3_figure_11.beside(found)}
    assert claims["settings in which P3's final accuracy is better"] == "1 of 3, 1 equal"
    assert claims["DGC's mean drop, points"] == "+0.00 (-2.48 to +2.48)"
    assert p3_figure_11.beside({}) == []
    raw = [
        {"way": way, "setting": number, **asdict(look)}
        for (way, number), each in found.items()
        for look in each
    ]
    assert p3_figure_11.looks_of(raw) == found
    figure = ElementTree.fromstring(p3_figure_11.drawn(found, "digits"))
    said = [each.text or "" for each in figure.iter() if each.tag.endswith(("text", "title"))]
    assert any("3 settings: digits" in text for text in said)
    assert "dgc: 94.00 % after 1 s" in said
    assert sum(each.tag.endswith("circle") for each in figure.iter()) == 6
    assert sum(each.tag.endswith("polygon") for each in figure.iter()) == 2


def test_digits_are_enlarged_to_cifars_size() -> None:
    network = enlarged.resnet(blocks=1)
    assert network.enlarge(torch.zeros(2, 1, 8, 8)).shape == (2, 1, 32, 32)
    assert network(torch.randn(2, 1, 8, 8)).shape == (2, 10)


def test_every_way_of_table_1_is_one_of_a_models_layers() -> None:
    """The paper's own among them; and a language model runs in segments, a translation network does not."""
    for name in ("lstm-lm", "attention-nmt"):
        subject = pai_table_1.Subject(name)
        assert pai_table_1.PAPER[name][0] in subject.ways()
        asked = subject.choices(pai_table_1.CUTTING)
        cut = {layer for layer, each in asked.items() if each.activations == "through-time"}
        assert {layer.kind for layer in subject.described.layers if layer.name in cut} == {"LSTM"}
        assert (subject.model(pai_table_1.SEQUENTIAL) is None) == (name == "attention-nmt")


def test_pytorchs_own_ways_hold_less_under_the_same_count() -> None:
    """Of a language model that is small enough to be run here."""
    subject, beside = pai_table_1.Subject("lstm-lm"), pai_table_1.SaveOnCpu()
    kept = subject.peak(pai_table_1.KEEP, 64, beside).total
    assert subject.peak(pai_table_1.ON_CPU, 64, beside).total < kept
    assert beside.moved > 0
    assert subject.peak(pai_table_1.SEQUENTIAL, 64, beside).total < kept
    assert subject.slow_down(pai_table_1.KEEP, 64, 0) == 0
    ways = (pai_table_1.SWAP, pai_table_1.RECOMPUTE, pai_table_1.CUTTING, pai_table_1.SEQUENTIAL)
    assert all(subject.slow_down(way, 64, 0) > 0 for way in ways)
    assert subject.slow_down(pai_table_1.ON_CPU, 64, beside.moved) > 0


def test_swapping_late_holds_less_and_takes_longer() -> None:
    subject, beside = pai_table_1.Subject("resnet-digits"), pai_table_1.SaveOnCpu()
    peaks = [subject.peak(way, 512, beside).total for way in (pai_table_1.LATE, pai_table_1.SWAP)]
    assert peaks[0] < peaks[1]
    late, ahead = (subject.slow_down(way, 512, 0) for way in (pai_table_1.LATE, pai_table_1.SWAP))
    assert late > ahead > 0


@pytest.mark.soak  # what a batch fits, in which way and how slowly, test_liveness_largest.py shows of small models
def test_at_an_equal_slow_down_more_time_allows_a_larger_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pai_table_1, "ROOM", 2**25)
    subject = pai_table_1.Subject("resnet-digits")
    none, some = subject.at_slow_down(0.0), subject.at_slow_down(0.5)
    assert 0 < none < some
    kept = subject.peak(pai_table_1.KEEP, none, pai_table_1.SaveOnCpu())
    assert max(kept.total, kept.first) <= 2**25
