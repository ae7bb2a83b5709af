"""What somebody does on the pages, one thing at a time, for `page_speed.py`, which measures how long the browser takes
until it paints again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tests.e2e.launching import open_editor
from tests.e2e.views import TABS, View

if TYPE_CHECKING:
    from playwright.sync_api import Page

Kind = Literal["click", "key", "pointer", "wheel"]
KINDS: tuple[Kind, ...] = ("click", "key", "pointer", "wheel")
LEAST_MS = 16.0
"""Of events that take less the browser tells nothing."""
WATCH = """() => {
    window.answers = [];
    const tell = (...answer) => window.answers.push(answer);
    new PerformanceObserver(list => list.getEntries().forEach(
        ({name, interactionId, duration}) => tell(name, interactionId, duration),
    )).observe({type: 'event', durationThreshold: 16, buffered: false});
    for (const type of ['pointermove', 'wheel'])
        addEventListener(type, ({timeStamp}) => requestAnimationFrame(() => {
            const painted = new MessageChannel();
            painted.port1.onmessage = () => tell(type, 0, performance.now() - timeStamp);
            painted.port2.postMessage(null);
        }), {capture: true, passive: true});
}"""
"""Event Timing tells of no event that goes on, as moves of the pointer and the wheel do: those are timed here. What it
tells of a move instead, that it entered each element there, is painted in the same frame, and does not count."""
_KEYS = ("keydown", "keypress", "keyup", "input", "beforeinput")
_ENTERED = ("over", "out", "enter", "leave")

Act = Callable[["Page"], None]


@dataclass(frozen=True, kw_only=True)
class Interaction:
    """One thing that somebody does."""

    address: str
    shows: str
    """A test id that is there once the page is."""
    kind: Kind
    """Of what is done; moves on the way to a click are there, too."""
    does: Act
    before: Act | None = None
    """What makes of the page what it is done on."""


def by_kind(answers: Sequence[tuple[str, int, float]], done: Kind) -> dict[Kind, list[float]]:
    """How long each answer took, ms, from what WATCH has told: `(event, interaction, ms)`. A press of a button or of a
    key is several events, of which the slowest counts. Of what was `done` there is at least one answer."""
    found: Mapping[Kind, list[float]] = defaultdict(list)
    presses: dict[tuple[Kind, int], float] = {}
    for name, interaction, ms in answers:
        if name.endswith(_ENTERED):
            continue
        kind = _kind(name)
        if interaction:
            presses[kind, interaction] = max(ms, presses.get((kind, interaction), 0.0))
        elif kind in ("pointer", "wheel"):
            found[kind].append(ms)
    for (kind, _), ms in presses.items():
        found[kind].append(ms)
    return {**found, done: found[done] or [LEAST_MS]}


def _kind(event: str) -> Kind:
    if event == "wheel":
        return "wheel"
    if event == "pointermove":
        return "pointer"
    return "key" if event in _KEYS else "click"


def interactions(views: Mapping[str, View], jobs: Sequence[str], raced: str) -> dict[str, Interaction]:
    """By name: on a baseline and another job, and on a race that has ended."""
    baseline, job = jobs
    page = f"/jobs/{job}"
    race, compare, links = f"/races/{raced}", views["compare"].address, f"{page}?tab=links"
    timeline, stretch = f"{page}?tab=timeline&step=5", views["job-stretch"].address
    return {
        **{f"job: open {name}": _at(page, "tab-overview", "click", pressed(f"tab-{name}")) for name in TABS[1:]},
        "timeline: point and click": _at(timeline, "figure-timeline", "click", over("figure-timeline")),
        "timeline: search for a layer": _at(timeline, "figure-timeline", "key", keys("/")),
        "timeline: look closer by keys": _at(timeline, "figure-timeline", "key", keys("w", "d", "s")),
        "timeline: look closer by wheel": _at(timeline, "figure-timeline", "wheel", turned("figure-timeline")),
        "links: point and click": _at(links, "figure-utilization", "click", over("figure-utilization")),
        "links: name layers by arrows": _at(
            links, "figure-utilization", "key", keys(*["ArrowRight"] * 4), focused("figure-utilization")
        ),
        "stretch: choose a layer": _at(stretch, "stretch-table", "click", row("stretch-table")),
        "stretch: go through layers": _at(
            stretch, "stretch-table", "key", keys("ArrowDown", "ArrowDown", "ArrowUp"), row("stretch-table")
        ),
        "side by side: point and click": _at(views["race"].address, "figure-race", "click", over("figure-race")),
        "ranking: point and click": _at(
            race, "figure-race-throughput", "click", over("figure-race-throughput")
        ),
        "ranking: ask before deleting": _at(race, "ranking-sentence", "click", pressed("delete-race")),
        "compare: point and click": _at(
            compare, "figure-compare-loss", "click", over("figure-compare-loss")
        ),
        "compare: choose how much is smoothed": _at(
            compare, "figure-compare-loss", "click", pressed("compare-smooth")
        ),
        "jobs: type a search": _at("/jobs", "jobs-table", "key", typed("filter-text", "recorded")),
        "jobs: choose a filter": _at("/jobs", "jobs-table", "click", pressed("filter-state")),
        "jobs: choose a job": _at("/jobs", "jobs-table", "click", pressed(f"select-{job}")),
        "devices: go there": _at("/jobs", "jobs-table", "click", pressed("nav-devices")),
        "devices: go to the races": _at("/devices", "queue-empty", "click", pressed("nav-races")),
        "any page: the other theme": _at(page, "tab-overview", "click", pressed("theme-toggle")),
        "launch: open a section": _at(
            f"/launch?from={baseline}", "plan-totals", "click", pressed("open-cluster")
        ),
        "launch a race: open a section": _at(
            "/launch?start=cluster", "can-p3", "click", pressed("open-conditions")
        ),
        "plan editor: open": _at(f"/launch?from={job}", "plan-totals", "click", pressed("edit-plan")),
        "plan editor: another codec": _at(
            f"/launch?from={job}", "plan-totals", "key", keys("ArrowDown"), _codec
        ),
        "logs: search": _at(f"{page}?tab=logs", "tab-logs", "key", typed("log-find", "step")),
    }  # fmt: skip


def _at(address: str, shows: str, kind: Kind, does: Act, before: Act | None = None) -> Interaction:
    return Interaction(address=address, shows=shows, kind=kind, does=does, before=before)


def typed(test_id: str, text: str) -> Act:
    return lambda page: page.get_by_test_id(test_id).press_sequentially(text, delay=30)


def pressed(test_id: str) -> Act:
    return lambda page: page.get_by_test_id(test_id).first.click()


def focused(test_id: str) -> Act:
    return lambda page: page.get_by_test_id(test_id).focus()


def row(table: str) -> Act:
    """A click on a table's first row that can be chosen."""
    return lambda page: page.get_by_test_id(table).locator("tbody tr[tabindex]").first.click()


def keys(*names: str) -> Act:
    def press(page: Page) -> None:
        for name in names:
            page.keyboard.press(name)

    return press


def over(test_id: str) -> Act:
    """The pointer crosses the figure, and ends on it with a click."""

    def cross(page: Page) -> None:
        x, y, wide, high = _box(page, test_id)
        for share in (0.3, 0.4, 0.5, 0.6):
            page.mouse.move(x + share * wide, y + 0.5 * high)
        page.mouse.click(x + 0.6 * wide, y + 0.5 * high)

    return cross


def turned(test_id: str) -> Act:
    """The wheel zooms around the middle of the figure."""

    def turn(page: Page) -> None:
        x, y, wide, high = _box(page, test_id)
        page.mouse.move(x + 0.5 * wide, y + 0.5 * high)
        for _ in range(8):
            page.mouse.wheel(0, -100)

    return turn


def _box(page: Page, test_id: str) -> tuple[float, float, float, float]:
    figure = page.get_by_test_id(test_id)
    figure.scroll_into_view_if_needed()
    box = figure.bounding_box()
    assert box is not None
    return box["x"], box["y"], box["width"], box["height"]


def _codec(page: Page) -> None:
    open_editor(page)
    page.get_by_test_id("plan-editor").locator("[data-testid$=-codec]").first.focus()
