"""What do hours of live updates do to the page? A server with much data, two jobs whose telemetry comes in all the
while, and the page of a real Chromium: Race, the Job's timeline of one step and of all, its links and its overview,
Race again, each zoomed and panned, stepped through by key and asked why it waits, again and again. Measured are the
heap and the renderer's memory, and how soon what a person does is to be seen.

Exit code 1 where a full run misses an aim.

Run: `python -m tests.e2e.live_updates --seconds 3600` (--quick: 3 minutes, a hundredth of the data).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from playwright.sync_api import sync_playwright

from backend.db import Database
from backend.db.engine import sqlite_url
from backend.services.benchmark import EVENTS_PER_S, Traffic, served
from backend.services.benchmark_fill import Large, add_large, add_others
from engine.benchmarks.harness.report import Report, arguments
from tests.browser import ARGUMENTS, find_chromium
from tests.e2e.viewer import PROBE, RACE, Findings, Scales, Viewer, memory, renderers

if TYPE_CHECKING:
    from playwright.sync_api import Browser

AIM_GROWTH, AIM_MB, AIM_MS = 0.10, 500.0, 200.0
LEAST_ROUNDS = 4
"""After the warm-up, however long they take: the first two are held against the last two."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is looked at, and for how long."""

    seconds: float
    warm_up: float
    """Of them, before the heap must not grow any more."""
    stay_s: float
    """So long a page is only watched, between what is done with it."""
    layers: int
    events: int
    """Of each of the two jobs, before it begins."""
    jobs: int
    """Others."""
    rate: float = EVENTS_PER_S
    """Events that come in per second, of both jobs together."""


def run(browser: Browser, directory: Path, setting: Setting, found: Findings) -> None:
    """Fill a database below `directory`, serve it, and watch the page for `setting.seconds`. What is found goes into
    `found` at once."""
    database = Database(sqlite_url(directory / "trainyard.db"))
    add_others(database, setting.jobs)
    large: list[Large] = [add_large(database, setting.layers, setting.events) for _ in range(2)]
    database.close()
    jobs = [each.job_id for each in large]
    with ExitStack() as stack:
        url = stack.enter_context(served(directory))
        half = setting.rate / len(large)
        traffic = [stack.enter_context(Traffic(url, each, events_per_s=half)) for each in large]
        before = renderers(browser)
        context = stack.enter_context(
            browser.new_context(viewport={"width": 1280, "height": 800}, base_url=url)
        )
        context.set_default_timeout(60_000)
        context.add_init_script(PROBE)
        page = context.new_page()
        page.goto(f"/race?jobs={','.join(jobs)}")
        page.locator(f"[data-testid={RACE}][data-drawn]").wait_for()
        # One may be a spare: the page's own is the one that has grown.
        renderer = max(renderers(browser) - before, key=lambda pid: memory(pid, "VmRSS"))
        stack.enter_context(Scales(renderer, found))
        viewer = Viewer(page, renderer, found, setting.stay_s)
        begun, warm_rounds = time.monotonic(), 0
        while time.monotonic() < begun + setting.seconds or warm_rounds < LEAST_ROUNDS:
            warm_rounds += time.monotonic() >= begun + setting.warm_up
            viewer.round(jobs)
            if found.broken:
                raise RuntimeError(f"the page broke: {found.broken[0]}")
    failed = [each.failed for each in traffic if each.failed]
    if failed:
        raise RuntimeError(f"batches refused: {failed}")
    found.events = sum(each.events for each in traffic)


def options() -> argparse.Namespace:
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, help="default: 3,600, --quick: 180")
    parser.add_argument("--warm-up", type=float, help="seconds of them; default: 600, --quick: 90")
    parser.add_argument("--layers", type=int, help="default: 1,000, --quick: 100")
    parser.add_argument(
        "--events", type=int, help="of each of the two jobs; default: 5 million, --quick: 50,000"
    )
    parser.add_argument("--jobs", type=int, help="others; default: 5,000, --quick: 50")
    parser.add_argument("--rate", type=float, default=EVENTS_PER_S, help="events per second, of both jobs")
    found = parser.parse_args()
    whole = {"seconds": 3600.0, "warm_up": 600.0, "layers": 1_000, "events": 5 * 10**6, "jobs": 5_000}
    quick = {"seconds": 180.0, "warm_up": 90.0, "layers": 100, "events": 50_000, "jobs": 50}
    for name, value in (quick if found.quick else whole).items():
        if getattr(found, name) is None:
            setattr(found, name, value)
    return found


def main() -> None:
    given = options()
    setting = Setting(
        seconds=given.seconds,
        warm_up=given.warm_up,
        stay_s=1.5 if given.quick else 4.0,
        layers=given.layers,
        events=given.events,
        jobs=given.jobs,
        rate=given.rate,
    )
    with Report(
        "live-updates", "The page under live updates", "Does it grow, and how soon does it answer?", given
    ) as report:
        measure(report, setting)
    sys.exit(report.exit_code())


def measure(report: Report, setting: Setting) -> None:
    """Watch the page and write down what was found, also where it does not come to the end."""
    report.plan(
        [f"two jobs of {setting.layers:,} layers and {setting.events:,} events, {setting.jobs:,} others",
         f"{setting.seconds:g} s of Race and a Job's tabs in Chromium at {setting.rate:,.0f} events/s"],
        minutes=setting.seconds / 60 + setting.events / 2e6,
    )  # fmt: skip
    report.method(
        "Race and the Job's timeline of one step and of all steps, its links and its overview in turn, without loading "
        f"the page again: each is watched for {setting.stay_s:g} s, zoomed and panned; where there are steps, it is "
        "asked why it waits and stepped through by key, and among the links a layer is lit up. The heap is read after "
        "a forced collection, as if the tab had been left for some seconds, so that nothing is on its way; the "
        "renderer's memory from the kernel every second, garbage included, of shared pages its part (PSS), without "
        "the answers' bodies that developer tools keep for whoever drives the page. An answer "
        "counts from the event's own time to the end of the frame in which its effect is to be seen: the moved axis, "
        "the panel, the chosen step; the drawing of another step follows when the service has answered. Browser "
        "(software rendering), server and jobs share the machine."
    )
    found = Findings(setting.warm_up)
    try:
        with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=find_chromium(), args=ARGUMENTS)
            run(browser, Path(directory), setting, found)
            browser.close()
    finally:
        report.raw(
            {"page": name, "s": at, "heap_bytes": size}
            for name in found.heap
            for at, size in found.heap[name]
        )
        if found.warm:
            show(report, found)


def show(report: Report, found: Findings) -> None:
    rows: list[list[object]] = []
    for name, samples in found.heap.items():
        first, last = (end / 1e6 for end in found.ends(samples))
        growth = found.growths[name]
        rows.append([name, len(samples), first, last, f"{growth:.1%}", growth < AIM_GROWTH])
    report.table(
        f"JavaScript heap after {found.warm_up:g} s (aim: grows by less than {AIM_GROWTH:.0%})",
        ["page", "times", "least of the first third MB", "of the last third MB", "growth", "within"],
        rows,
    )
    most = max(found.renderer)
    report.table(
        f"The renderer's memory (aim: under {AIM_MB:g} MB)",
        [
            "median MB",
            "most MB",
            "within",
            "kept for the driver MB",
            "most PSS MB, with that",
            "of it shared, least of the first third MB",
            "of the last third MB",
            "most MB with all that it shares",
        ],
        [
            [
                statistics.median(found.renderer) / 1e6,
                most / 1e6,
                most < AIM_MB * 1e6,
                found.kept / 1e6,
                max(found.pss) / 1e6,
                *(end / 1e6 for end in found.ends(found.shared)),
                found.resident / 1e6,
            ]
        ],
    )
    everything = {**found.answers, "all": [ms for each in found.answers.values() for ms in each]}
    percentiles = {what: [float(np.percentile(ms, p)) for p in (50, 95)] for what, ms in everything.items()}
    report.table(
        f"Interactions (aim: p95 within {AIM_MS:g} ms)",
        ["what", "times", "p50 ms", "p95 ms", "worst ms", "within"],
        [
            [what, len(ms), *percentiles[what], max(ms), percentiles[what][1] <= AIM_MS]
            for what, ms in everything.items()
        ],
    )
    grown, p95 = max(found.growths.values()), percentiles["all"][1]
    report.aims(
        [
            (f"no page's heap grows by {AIM_GROWTH:.0%} or more", f"{grown:.1%} at most", grown < AIM_GROWTH),
            (f"the renderer stays under {AIM_MB:g} MB", f"{most / 1e6:.0f} MB at most", most < AIM_MB * 1e6),
            (
                f"interactions answer within {AIM_MS:g} ms at the 95th percentile",
                f"{p95:.0f} ms",
                p95 <= AIM_MS,
            ),
        ]
    )
    tasks = found.long_tasks or [0.0]
    report.note(
        f"{found.figures} figures were drawn, {found.events:,} events came in. {len(found.long_tasks)} tasks kept the "
        f"page busy for more than 50 ms, half of them for {statistics.median(tasks):.0f} ms, the longest for "
        f"{max(tasks):.0f} ms."
    )


if __name__ == "__main__":
    main()
