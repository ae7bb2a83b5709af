"""Every page as somebody meets it: where it is, what one does there, and when it has come to rest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from backend.client import Client
from tests.e2e.launching import open_editor, open_section

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

TABS = ("overview", "timeline", "links", "plan", "attempts", "events", "logs", "spec")
SCREEN_PX, MOST_PX = 844, 6_000
POLL_MS = 50
# Nothing that is on screen is still on its way.
AT_REST = """() => !Array.from(document.querySelectorAll(
    '.mantine-Skeleton-root, .ty-figure:not([data-drawn]), [data-pending], [aria-busy=true]'))
    .map(one => one.getBoundingClientRect())
    .some(({top, bottom}) => top < innerHeight && bottom >= 0)"""
# Colours that change slowly are judged when they have changed.
STILL = """() => {
    const still = new CSSStyleSheet();
    still.replaceSync('*, *::before, *::after { transition: none !important; animation: none !important; }');
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, still];
}"""


def at_rest(page: Page) -> None:
    """Wait until it is at rest. To look in every frame, as Playwright would, has the page make sixty a second."""
    page.wait_for_function(AT_REST, polling=POLL_MS)


@dataclass(frozen=True, kw_only=True)
class View:
    """One page."""

    address: str
    shows: str
    """A test id that is there once the page is."""
    do: Callable[[Page], None] | None = None
    """What makes of it what is looked at."""
    asks: tuple[str, ...] = ()
    """The buttons that open a dialog over it, by their test ids."""

    def open(self, page: Page) -> None:
        """Go there and wait until it is at rest, as high as it is: figures out of sight are not asked for."""
        width = (page.viewport_size or {"width": 1280})["width"]
        page.set_viewport_size({"width": width, "height": SCREEN_PX})
        page.goto(self.address)
        expect(page.get_by_test_id(self.shows).first).to_be_visible()
        at_rest(page)
        if self.do:
            self.do(page)
        unfold(page)


def unfold(page: Page) -> None:
    """Make the screen as high as what is on it, and wait until it is at rest."""
    size = page.viewport_size or {"width": 1280, "height": SCREEN_PX}
    at_rest(page)
    seen = size["height"]
    while seen < (height := min(page.evaluate("document.documentElement.scrollHeight"), MOST_PX)):
        page.set_viewport_size({"width": size["width"], "height": height})
        at_rest(page)
        seen = height  # figures may have grown when they came


PARTS = ("home", "race", "job-timeline", "job-links", "race-unknown", "compare-empty", "launch")
"""Views of which another one has all: the race that one lands on, figures without what is chosen in them, the choice of
jobs that a race asks for, and a form without what is opened or refused in it. The visit to all pages goes to them in
`soak`."""


FORMS = ("plan-editor",)
"""Views of a form that lies over the page: nothing below it is taken along."""


@contextmanager
def dialog(page: Page, opener: str) -> Iterator[Locator]:
    """What a button opens over the page, until the block ends."""
    page.get_by_test_id(opener).click()
    opened = page.get_by_role("dialog")
    # It is named by its title, once that is there: who looks before sees a dialogue without a name.
    expect(page.get_by_role("dialog", name=re.compile(r"\S"))).to_be_visible()
    yield opened
    page.keyboard.press("Escape")
    expect(opened).to_have_count(0)


def sign_in(url: str) -> View:
    """What a server that asks for a token shows to who is not signed in."""
    return View(address=f"{url}/", shows="sign-in")


def views(client: Client, jobs: list[str], drifting: str, raced: str) -> dict[str, View]:
    """All of them, by name, but for signing in; `jobs` are a baseline and another job, the workers of `drifting` do not
    wait for one another, and `raced` is a race that has ended."""
    baseline, job = jobs
    seen = client.figure(job, "timeline", step=5).layout.meta
    wait = seen["waits"][0]
    why = ",".join(str(wait[part]) for part in ("party", "step", "layer", "unit"))
    both = ",".join(jobs)
    window = f"from_ns={seen['from_ns']}&to_ns={seen['to_ns']}"
    tabs = {
        f"job-{tab}": View(address=f"/jobs/{job}?tab={tab}", shows=f"tab-{tab}")
        for tab in TABS
    }  # fmt: skip
    tabs["job-overview"] = replace(tabs["job-overview"], asks=("delete", "edit-labels"))
    return {
        "home": View(address="/", shows="race-name"),
        "race-ranking": View(address=f"/races/{raced}", shows="ranking-sentence", asks=("delete-race",)),
        "race-asks": View(address="/race", shows="choose-jobs"),
        "race": View(address=f"/race?jobs={both}&step=5", shows="figure-race"),
        "race-why": View(address=f"/race?jobs={both}&step=5&why={why}&why_job={job}", shows="why-text"),
        "races": View(address="/races", shows="races"),
        "jobs": View(address="/jobs?text=recorded", shows=f"job-row-{job}", asks=("saved-filters",)),
        "jobs-groups": View(address="/jobs?text=recorded&group=model&open=mlp", shows=f"job-row-{job}"),
        "devices": View(address="/devices", shows="queue-empty"),
        "people": View(address="/people", shows="audit-table"),
        "compare-empty": View(address="/compare", shows="choose-jobs"),
        "compare": View(address=f"/compare?jobs={both}", shows="settings"),
        "launch": View(address=f"/launch?from={baseline}", shows="plan-totals"),
        "launch-own": View(address="/launch?start=own", shows="plan-held"),
        "launch-cluster": View(address="/launch?start=cluster", shows="can-p3", do=_vary),
        "launch-refused": View(address="/launch", shows="plan-totals", do=_refused),
        "plan-editor": View(address=f"/launch?from={job}", shows="plan-totals", do=_edit),
        **tabs,
        "job-staleness": View(address=f"/jobs/{drifting}?tab=staleness", shows="staleness-workers"),
        "job-timeline-why": View(address=f"/jobs/{job}?tab=timeline&step=5&why={why}", shows="why-text"),
        "job-stretch": View(address=f"/jobs/{job}?tab=links&{window}", shows="stretch-table"),
        "job-unknown": View(address="/jobs/nobody", shows="problem"),
        "race-unknown": View(address="/races/nobody", shows="problem"),
    }


def _vary(page: Page) -> None:
    open_section(page, "conditions")


def _refused(page: Page) -> None:
    open_section(page, "cluster")
    field = page.get_by_test_id("field-cluster.workers")
    field.fill("0")
    expect(field).to_have_attribute("aria-invalid", "true")
    page.get_by_test_id("launch").click()
    expect(page.get_by_test_id("launch-problem")).to_be_visible()


def _edit(page: Page) -> None:
    open_editor(page)
    expect(page.get_by_test_id("plan-editor")).to_be_visible()
