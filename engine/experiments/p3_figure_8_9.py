"""P3's figures 8 and 9: network utilization of one worker at 10 ms, baseline and P3.

Run: `python -m engine.experiments.p3_figure_8_9` (about 3 minutes; `--quick` about 1). Beside the usual result it
writes `-bins.json` with every bin, and `.svg`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from engine.benchmarks.harness.jobs import Measured, measure
from engine.benchmarks.harness.machine import cpu_use
from engine.benchmarks.harness.report import Report, arguments
from engine.experiments import drawing, link_bins
from engine.experiments.link_bins import IDLE, LinkBins
from engine.experiments.p3_cluster import (
    BASELINE,
    P3,
    RESULTS,
    WARM_UP,
    WORKLOADS,
    Workload,
    expected_s,
    job,
    label,
    setting,
    slowness,
)
from engine.launch import Launch
from engine.telemetry.events import BIN_NS

RATES = {"resnet50": 4.0, "vgg19": 15.0, "sockeye-shape": 4.0}
"""Gbit/s, the paper's (section 5.3)."""
STRATEGIES = (BASELINE, P3)
WORKER = 1
"""Whose link is shown. Not worker 0, which also ends the job."""
PAPER = """\
The paper shows curves, no figures: with the baseline the traffic of all models comes in bursts with idle time between
them, and for Sockeye inbound and outbound do not overlap; with P3 the idle time is considerably lower, and Sockeye
uses both directions at once. (Its bins are those of bwm-ng at the interface, ours those of the kernel's counters of
the host's interface. As time is slowed, so many of our bins are joined that they are 10 ms of the cluster's time.)"""
COLUMNS = (
    "model",
    "Gbit/s",
    "strategy",
    "mean out",
    "mean in",
    "idle out",
    "idle in",
    "both idle",
    "both in use",
    "samples/s",
    "CPU",
)


def main() -> None:
    """Measure, and write table, bins and figure."""
    options = parser().parse_args()
    chosen = [WORKLOADS[model] for model in RATES][: 1 if options.quick else None]
    with Report(
        "p3_figure_8_9",
        "P3, figures 8 and 9: network utilization at 10 ms",
        "How evenly do baseline and P3 use a worker's link, and how much of the time is it idle?",
        options,
    ) as report:
        minutes = 2 * sum(expected_s(each, RATES[each.model], steps=options.steps) for each in chosen) / 60
        report.plan(
            [f"{each.title} at {RATES[each.model]:g} Gbit/s: baseline, p3" for each in chosen], minutes
        )
        for workload in chosen:
            report.method(setting(workload))
        report.method(
            f"Bins of 10 ms of the cluster's time (so many times longer here as time is slower) of worker {WORKER}'s "
            f"link; idle: below {IDLE:.0%} of the link's rate."
        )
        found = []
        for workload in chosen:
            for name in STRATEGIES:
                one, link = run(workload, name, options.steps)
                found.append((workload, name, one, link))
                report.raw(
                    [{"model": workload.model, "strategy": name, "label": label(workload), **one.row()}]
                )
                report.table("Utilization", COLUMNS, [row(*each) for each in found])
        report.note(PAPER)
    write_bins(report.path, found)


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = arguments(__doc__)
    made.set_defaults(out=RESULTS)
    made.add_argument("--steps", type=int, default=8, help="of each run, warm-up included")
    return made


def run(workload: Workload, strategy: str, steps: int) -> tuple[Measured, LinkBins]:
    """One run and its worker's link."""
    spec = job(workload, strategy, RATES[workload.model], steps=steps)
    with tempfile.TemporaryDirectory(prefix="trainyard-experiment-") as directory:
        measured = measure(spec, warm_up=WARM_UP, directory=Path(directory))
        link = link_bins.read(Launch.read(Path(directory)), WORKER, WARM_UP)
    return measured, link.joined(round(slowness(workload, spec.cluster.workers)))


def row(workload: Workload, strategy: str, measured: Measured, link: LinkBins) -> list[Any]:
    """One line of the table."""
    shares = (float(link.tx.mean()), float(link.rx.mean()), *link.idle, link.both)
    return [
        workload.title,
        RATES[workload.model],
        strategy,
        *(f"{share:.0%}" for share in shares),
        measured.samples_per_s,
        cpu_use([measured.cpu_share]),
    ]


def write_bins(path: Path, found: list[tuple[Workload, str, Measured, LinkBins]]) -> None:
    """The bins as JSON and as a figure, beside the result."""
    plain = [
        {
            "model": workload.model,
            "strategy": strategy,
            "label": label(workload),
            "interface": link.interface,
            "rate_bps": link.rate_bps,
            "bin_ns": link.bin_ns,
            "cluster_bin_ns": BIN_NS,
            "out": link.tx.round(4).tolist(),
            "in": link.rx.round(4).tolist(),
        }
        for workload, strategy, _, link in found
    ]
    path.with_name(f"{path.stem}-bins.json").write_text(json.dumps(plain) + "\n", encoding="utf-8")
    panels = [
        (f"{w.title} at {RATES[w.model]:g} Gbit/s, {strategy}", link.tx, link.rx)
        for w, strategy, _, link in found
    ]
    title = f"Utilization of worker {WORKER}'s link at 10 ms of the cluster's time; rehearsed, sizes and rates scaled"
    path.with_suffix(".svg").write_text(drawing.utilization(title, panels, BIN_NS / 1e9), encoding="utf-8")


if __name__ == "__main__":
    main()
