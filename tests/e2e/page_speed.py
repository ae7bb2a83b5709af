"""Does the page answer at once? How long every page takes until its data are painted, and every interaction until the
browser paints again, on the recorded jobs, with a real server and a real Chromium; and how long the preview of a plan
takes that the launch form asks for.

    python -m tests.e2e.page_speed              # each page and interaction ten times: about ten minutes
    python -m tests.e2e.page_speed --quick      # twice
    python -m tests.e2e.page_speed --quick --only jobs   # what has this in its name
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, TypeVar

from playwright.sync_api import expect, sync_playwright

from backend.client import Client
from engine.benchmarks.harness.report import Report, arguments
from tests.backend.guarded import TOKEN
from tests.backend.live_server import LiveServer
from tests.browser import ARGUMENTS, AS_FOR_A_USER, find_chromium
from tests.e2e.interactions import KINDS, WATCH, Interaction, Kind, by_kind, interactions
from tests.e2e.recorded import record, record_drifting, record_race
from tests.e2e.views import AT_REST, View, sign_in, views

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
T = TypeVar("T")
TIMEOUT_MS = 60_000
ALL = "all interactions"
THERE = "id => document.querySelector(`[data-testid='${id}']`)?.checkVisibility() ?? false"
"""Asked in every frame: a locator waits up to half a second before it looks again, and that would be the page's."""
PAINTED = "() => new Promise(done => requestAnimationFrame(() => setTimeout(() => done(performance.now()))))"
HIDE = ("job-unknown", "launch-refused")
"""Views that have no data, or that are another one's until somebody does something."""


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


def interaction_ms(page: Page, one: Interaction) -> tuple[dict[Kind, list[float]], float]:
    """Each answer until the next paint, by its kind, and the whole until nothing is on its way."""
    page.evaluate(WATCH)
    begun = page.evaluate(PAINTED)
    one.does(page)
    page.evaluate(PAINTED)
    page.wait_for_function(AT_REST, polling="raf")
    rest = page.evaluate(PAINTED) - begun
    page.wait_for_timeout(100)  # entries are told a little later
    return by_kind(page.evaluate("() => window.answers"), one.kind), rest


def main() -> int:
    """Exit status 1 where an aim of a full run was missed."""
    parser = arguments(__doc__)
    parser.add_argument("--only", default="", help="pages and interactions with this in their names")
    options = parser.parse_args()
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
        " the browser's own from an event until the next paint (Event Timing); of the events of one press of a button"
        " or of a key the slowest counts, and those that take less than 16 ms the browser does not tell. Moves of the"
        " pointer and the wheel, which it never tells, are timed from the event to the message after the next frame."
        " `at rest` is until nothing is loading or being drawn any more, with the pauses between the keys that are"
        " typed."
    )
    with tempfile.TemporaryDirectory(prefix="trainyard-page-") as folder, sync_playwright() as playwright:
        switches = [*ARGUMENTS, AS_FOR_A_USER]
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=switches)
        with (
            LiveServer(Path(folder) / "data", cpu_devices=2) as server,
            LiveServer(Path(folder) / "guarded", scheduler=False, token=TOKEN) as guarded,
            Client(server.url) as client,
        ):
            jobs, raced = record(client), record_race(client)
            found = views(client, jobs, record_drifting(client), raced)
            acts = interactions(found, jobs, raced)
            found |= {"sign-in": sign_in(guarded.url)}
            paints = _paints(browser, server.url, _only(found, options.only), times, report)
            events = _interactions(browser, server.url, _only(acts, options.only), times, report)
            asked = {job["name"]: job for job in PREVIEWED}
            previews = _previews(client, _only(asked, options.only), times, report)
        browser.close()
    report.aims(
        [
            *(
                (f"every page's median at most {PAINT_MS:.0f} ms ({name})", ms, ms <= PAINT_MS)
                for name, ms in sorted(paints.items(), key=itemgetter(1))[-1:]
            ),
            *(
                (f"every preview's median at most {PREVIEW_MS:.0f} ms", ms, ms <= PREVIEW_MS)
                for ms in sorted(previews)[-1:]
            ),
            *(
                (f"95 % of {name} within {INTERACTION_MS:.0f} ms", share, share <= INTERACTION_MS)
                for name, share in events.items()
            ),
        ]
    )


def _only(found: Mapping[str, T], part: str) -> dict[str, T]:
    return {name: one for name, one in found.items() if part in name and name not in HIDE}


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


def _previews(client: Client, jobs: Mapping[str, Any], times: int, report: Report) -> list[float]:
    """Medians. The first one of a model, which is described for it, is not among what is measured."""
    rows: list[list[Any]] = []
    for name, job in jobs.items():
        taken = []
        for _ in range(times + 1):
            begun = time.perf_counter()
            client.preview(job)
            taken.append(1000 * (time.perf_counter() - begun))
        rows.append([name, median(taken[1:]), max(taken[1:]), taken[0]])
        report.raw([{"preview": name, "ms": taken}])
        report.table("Previews: ms until the plan is there", ["job", "median", "largest", "first"], rows)
    return [row[1] for row in rows]


def _interactions(
    browser: Browser, url: str, acts: Mapping[str, Interaction], times: int, report: Report
) -> dict[str, float]:
    """The 95th percentile of the answers of each kind, and of all."""
    every: dict[str, list[float]] = {kind: [] for kind in (*KINDS, ALL)}
    rows: list[list[Any]] = []
    for name, one in acts.items():
        taken, rests = defaultdict[Kind, list[float]](list), []
        for _ in range(times):
            with opened(browser, url) as page:
                page.goto(one.address)
                expect(page.get_by_test_id(one.shows).first).to_be_visible()
                page.wait_for_function(AT_REST)
                if one.before:
                    one.before(page)
                    page.wait_for_function(AT_REST)
                answers, rest = interaction_ms(page, one)
                for kind, each in answers.items():
                    taken[kind] += each
                rests.append(rest)
        for kind, each in taken.items():
            every[kind] += each
            every[ALL] += each
        own = taken[one.kind]
        rows.append([name, one.kind, median(own), percentile(own, 0.95), median(rests)])
        report.raw([{"interaction": name, "kind": one.kind, "answer_ms": dict(taken), "rest_ms": rests}])
        report.table(
            "Interactions: ms until the next paint, and until at rest",
            ["interaction", "kind", "median", "95th percentile", "at rest, median"],
            rows,
        )
    shares = {kind: percentile(each, 0.95) for kind, each in every.items() if each}
    report.table(
        "Answers by kind: ms until the next paint",
        ["kind", "answers", "median", "95th percentile", "largest"],
        [
            [kind, len(every[kind]), median(every[kind]), share, max(every[kind])]
            for kind, share in shares.items()
        ],
    )
    return shares


if __name__ == "__main__":
    sys.exit(main())
