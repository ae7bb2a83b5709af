"""Does the page answer at once? How long every page takes until its data are painted, and every interaction until the
browser paints again, on the recorded jobs, with a real server and a real Chromium; and how long the preview of a plan
takes that the launch form asks for.

    python -m tests.e2e.page_speed              # each page and interaction ten times: about eight minutes
    python -m tests.e2e.page_speed --quick      # twice
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect, sync_playwright

from backend.client import Client
from engine.benchmarks.harness.report import Report, arguments
from tests.backend.live_server import LiveServer
from tests.browser import ARGUMENTS, AS_FOR_A_USER, find_chromium
from tests.e2e.recorded import record, record_drifting
from tests.e2e.views import AT_REST, TABS, View, views

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PAINT_MS, INTERACTION_MS, PREVIEW_MS = 1000.0, 200.0, 1000.0
"""The aims: a page with its data; the 95th percentile of interactions until the next paint; the preview of a plan, of a
model that has been described before."""
PREVIEWED = [
    {
        "name": f"{model}, {strategy}",
        "model": {"name": model},
        "data": {"name": "synthetic", "options": {"shape": [3, 224, 224], "samples": 64, "classes": 1000}},
        "strategy": {"name": strategy},
        "training": {"global_batch": 64, "epochs": 1},
        "cluster": {"workers": 2, "device": "cpu"},
        "network": {"rate": "1Gbit"},
    }
    for model in ("vgg19", "resnet50")
    for strategy in ("p3", "ring-allreduce", "hybrid")
]
"""Jobs whose plans have many units: thousands of slices, many small layers, a model that is cut."""
TIMEOUT_MS = 60_000
WATCH = """() => {
    window.events = [];
    new PerformanceObserver(list => window.events.push(...list.getEntries().map(one => one.duration)))
        .observe({type: 'event', durationThreshold: 16, buffered: false});
}"""
THERE = "id => document.querySelector(`[data-testid='${id}']`)?.checkVisibility() ?? false"
"""Asked in every frame: a locator waits up to half a second before it looks again, and that would be the page's."""
PAINTED = "() => new Promise(done => requestAnimationFrame(() => setTimeout(() => done(performance.now()))))"
HIDE = ("job-unknown", "launch-refused", "plan-editor", "launch-cluster")
"""Views in which somebody does something first, or that have no data."""


def percentile(values: list[float], share: float) -> float:
    """The smallest value that at least so large a share of all does not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


@contextmanager
def opened(browser: Browser, url: str) -> Iterator[Page]:
    """A page of a context of its own: nothing is in its cache."""
    context = browser.new_context(base_url=url, viewport={"width": 1280, "height": 844})
    context.set_default_timeout(TIMEOUT_MS)
    page = context.new_page()
    yield page
    context.close()


def paint_ms(page: Page, view: View) -> float:
    """From the beginning of the navigation until what is on screen has its data and is painted."""
    page.goto(view.address, wait_until="commit")
    page.wait_for_function(THERE, arg=view.shows, polling="raf")
    page.wait_for_function(AT_REST, polling="raf")
    return float(page.evaluate(PAINTED))


def typed(test_id: str, text: str) -> Callable[[Page], None]:
    return lambda page: page.get_by_test_id(test_id).press_sequentially(text, delay=30)


def pressed(test_id: str) -> Callable[[Page], None]:
    return lambda page: page.get_by_test_id(test_id).first.click()


def over(test_id: str) -> Callable[[Page], None]:
    """The pointer crosses the figure, and ends on it with a click."""

    def cross(page: Page) -> None:
        box = page.get_by_test_id(test_id).bounding_box()
        assert box is not None
        for share in (0.3, 0.4, 0.5, 0.6):
            page.mouse.move(box["x"] + share * box["width"], box["y"] + 0.5 * box["height"])
        page.mouse.click(box["x"] + 0.6 * box["width"], box["y"] + 0.5 * box["height"])

    return cross


def key(name: str) -> Callable[[Page], None]:
    return lambda page: page.keyboard.press(name)


def interactions(baseline: str, job: str) -> dict[str, tuple[str, str, Callable[[Page], None]]]:
    """Name -> address, what is waited for there, what is done."""
    both = f"{baseline},{job}"
    page = f"/jobs/{job}"
    return {
        **{f"job: open {name}": (page, "tab-overview", pressed(f"tab-{name}")) for name in TABS[1:]},
        "timeline: point and click": (
            f"{page}?tab=timeline&step=5",
            "figure-timeline",
            over("figure-timeline"),
        ),
        "timeline: search for a layer": (f"{page}?tab=timeline&step=5", "figure-timeline", key("/")),
        "links: point and click": (f"{page}?tab=links", "figure-utilization", over("figure-utilization")),
        "race: point and click": (f"/race?jobs={both}&step=5", "figure-race", over("figure-race")),
        "jobs: type a search": ("/jobs", "jobs-table", typed("filter-text", "recorded")),
        "jobs: choose a filter": ("/jobs", "jobs-table", pressed("filter-state")),
        "jobs: choose a job": ("/jobs", "jobs-table", pressed(f"select-{job}")),
        "any page: the other theme": (page, "tab-overview", pressed("theme-toggle")),
        "launch: open a section": (f"/launch?from={baseline}", "plan-totals", pressed("open-cluster")),
        "logs: search": (f"{page}?tab=logs", "tab-logs", typed("log-find", "step")),
    }


def interaction_ms(page: Page, does: Callable[[Page], None]) -> tuple[list[float], float]:
    """Each event until the next paint (at least 16 ms), and the whole until nothing is on its way."""
    page.evaluate(WATCH)
    begun = page.evaluate(PAINTED)
    does(page)
    page.evaluate(PAINTED)
    page.wait_for_function(AT_REST, polling="raf")
    rest = page.evaluate(PAINTED) - begun
    page.wait_for_timeout(100)  # entries are told a little later
    return page.evaluate("() => window.events") or [16.0], rest


def main() -> int:
    """Exit status 1 where an aim of a full run was missed."""
    options = arguments(__doc__).parse_args()
    times = 2 if options.quick else 10
    title, question = "The page's answers", "How long until a page shows its data, and until it answers?"
    with Report("page", title, question, options) as report:
        _run(options, report, times)
    return report.exit_code()


def _run(options: argparse.Namespace, report: Report, times: int) -> None:
    report.plan([f"each page and interaction {times} times"], minutes=times / 2)
    report.method(
        "Two recorded jobs of two workers, a real server, a headless Chromium with an empty cache for each page."
        " A page's time is from the beginning of the navigation until all that is on screen has its data, figures"
        " drawn, and the frame is painted. V8 notes line numbers when it compiles: else a browser that is driven parses"
        " plotly.js anew for each exception that plotly.js catches, which a user's does not. An interaction's time is"
        " the browser's own for each input event until the next paint (Event Timing); `at rest` is until nothing is"
        " loading or being drawn any more, with the pauses between the keys that are typed."
    )
    with tempfile.TemporaryDirectory(prefix="trainyard-page-") as folder, sync_playwright() as playwright:
        switches = [*ARGUMENTS, AS_FOR_A_USER]
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=switches)
        with LiveServer(Path(folder), cpu_devices=2) as server, Client(server.url) as client:
            jobs = record(client)
            found = {
                name: view
                for name, view in views(client, jobs, record_drifting(client)).items()
                if name not in HIDE
            }
            paints = _paints(browser, server.url, found, times, report)
            events = _interactions(browser, server.url, jobs, times, report)
            previews = _previews(client, times, report)
        browser.close()
    slowest = max(paints, key=lambda name: paints[name])
    share = percentile(events, 0.95)
    report.aims(
        [
            (
                f"every page's median at most {PAINT_MS:.0f} ms ({slowest})",
                paints[slowest],
                paints[slowest] <= PAINT_MS,
            ),
            (
                f"every preview's median at most {PREVIEW_MS:.0f} ms",
                max(previews),
                max(previews) <= PREVIEW_MS,
            ),
            (f"95 % of interactions within {INTERACTION_MS:.0f} ms", share, share <= INTERACTION_MS),
        ]
    )


def _paints(
    browser: Browser, url: str, found: dict[str, View], times: int, report: Report
) -> dict[str, float]:
    rows: list[list[Any]] = []
    for name, view in found.items():
        taken = []
        for _ in range(times):
            with opened(browser, url) as page:
                taken.append(paint_ms(page, view))
        rows.append([name, median(taken), max(taken)])
        report.raw([{"page": name, "ms": taken}])
        report.table("Pages: ms until their data are painted", ["page", "median", "largest"], rows)
    return {row[0]: row[1] for row in rows}


def _previews(client: Client, times: int, report: Report) -> list[float]:
    """Medians. The first one of a model, which is described for it, is not among what is measured."""
    rows: list[list[Any]] = []
    for job in PREVIEWED:
        taken = []
        for _ in range(times + 1):
            begun = time.perf_counter()
            client.preview(job)
            taken.append(1000 * (time.perf_counter() - begun))
        name = job["name"]
        rows.append([name, median(taken[1:]), max(taken[1:]), taken[0]])
        report.raw([{"preview": name, "ms": taken}])
        report.table("Previews: ms until the plan is there", ["job", "median", "largest", "first"], rows)
    return [row[1] for row in rows]


def _interactions(browser: Browser, url: str, jobs: list[str], times: int, report: Report) -> list[float]:
    every: list[float] = []
    rows: list[list[Any]] = []
    for name, (address, shows, does) in interactions(*jobs).items():
        events, rests = [], []
        for _ in range(times):
            with opened(browser, url) as page:
                page.goto(address)
                expect(page.get_by_test_id(shows).first).to_be_visible()
                page.wait_for_function(AT_REST)
                taken, rest = interaction_ms(page, does)
                events += taken
                rests.append(rest)
        every += events
        rows.append([name, median(events), percentile(events, 0.95), median(rests)])
        report.raw([{"interaction": name, "event_ms": events, "rest_ms": rests}])
        report.table(
            "Interactions: ms until the next paint, and until at rest",
            ["interaction", "median", "95th percentile", "at rest, median"],
            rows,
        )
    return every


if __name__ == "__main__":
    sys.exit(main())
