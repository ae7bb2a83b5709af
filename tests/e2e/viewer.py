"""Somebody in front of the page, who watches and tries everything again and again; and what it does to the page. For
`live_updates.py`."""

from __future__ import annotations

import re
import statistics
import threading
import time
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.tabs import show

if TYPE_CHECKING:
    from playwright.sync_api import Browser, CDPSession, Page, Response

RACE, TIMELINE = "figure-race", "figure-timeline"
UTILIZATION, HEATMAP, LOSS = "figure-utilization", "figure-heatmap", "figure-loss"
PAGES = {"Race", "Job", "Many steps", "Links", "Overview"}
"""What is looked at in every round."""

KEPT_MOST = 200_000_000
"""So much of what came over the network Chromium's developer tools keep, through which it is driven: the default of
`Network.enable`, which Playwright leaves as it is (old ones: 100 MB). Measured: see MEASUREMENTS.md, 51."""

LET_GO_MS = 5_500
"""After so long figures that were left, or zoomed, are let go: before, chance says what else is weighed."""

# From an event to the end of the frame in which what it does is to be seen; and what kept the page from answering.
PROBE = """
window.longTasks = [];
new PerformanceObserver((list) => {
  for (const task of list.getEntries()) window.longTasks.push(task.duration);
}).observe({ type: 'longtask' });
window.watch = (event, done) => {
  window.answered = new Promise((answer, fail) => {
    let from;
    const late = performance.now() + 20000;
    addEventListener(event, (e) => { from ??= e.timeStamp; }, { capture: true, once: true });
    const look = () => {
      if (performance.now() > late) return fail(new Error(`nothing came of ${event}: ${done}`));
      if (from === undefined || !done()) return requestAnimationFrame(look);
      const behind = new MessageChannel();  // its message comes when the frame is out
      behind.port1.onmessage = () => answer(performance.now() - from);
      behind.port2.postMessage(null);
    };
    requestAnimationFrame(look);
  });
};
window.rangeOf = (id) => String(document.querySelector(`[data-testid=${id}]`)._fullLayout.xaxis.range);
window.stepOf = () => document.querySelector('[data-testid=step]').value;
"""


@dataclass
class Findings:
    """What was measured. Times are seconds since the page was opened."""

    warm_up: float
    """After so many seconds the heap must not grow any more."""
    heap: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    """By page: bytes in use, with all garbage collected."""
    pss: list[int] = field(default_factory=list)
    """Every second: bytes of the renderer, of pages that it shares with other processes its part."""
    renderer: list[int] = field(default_factory=list)
    """The same without `kept`."""
    shared: list[tuple[float, int]] = field(default_factory=list)
    """Every second: bytes of them that are no file and no memory of its own: tiles, decoded pictures."""
    kept: int = 0
    """Bytes that the renderer keeps for who drives it: all answers' bodies, until KEPT_MOST is full."""
    resident: int = 0
    """Most bytes that it ever had in memory, shared pages (Chromium's own program) included."""
    answers: dict[str, list[float]] = field(default_factory=dict)
    """By what was done: ms until it was to be seen."""
    long_tasks: list[float] = field(default_factory=list)
    """ms in which the page could not have answered."""
    figures: int = 0
    """Answers of the service that were drawn."""
    events: int = 0
    broken: list[str] = field(default_factory=list)

    def ends(self, samples: list[tuple[float, int]]) -> tuple[float, float]:
        """The least of the first and of the last third of what was measured after the warm-up: what comes and goes
        with a drawing is no growth."""
        late = [size for at, size in samples if at >= self.warm_up]
        part = max(len(late) // 3, 2)
        return min(late[:part]), min(late[-part:])

    def trend(self, samples: list[tuple[float, int]]) -> tuple[float, float, float]:
        """A line through what was measured after the warm-up: its height at the first and at the last of them, and its
        slope per second. It is Theil's and Sen's, whose slope is the median of those between any two: what is heavy
        once does not turn it."""
        late = [(at, size) for at, size in samples if at >= self.warm_up]
        slope = statistics.median(
            (size - other) / (at - before) for (before, other), (at, size) in combinations(late, 2)
        )
        foot = statistics.median(size - slope * at for at, size in late)
        return foot + slope * late[0][0], foot + slope * late[-1][0], slope

    @property
    def warm(self) -> bool:
        """Whether every page was weighed after the warm-up."""
        return all(any(at >= self.warm_up for at, _ in self.heap.get(name, ())) for name in PAGES)

    @property
    def growths(self) -> dict[str, float]:
        """Of the heap after the warm-up, by page: 0.1 is a tenth."""
        ends = {name: self.ends(samples) for name, samples in self.heap.items()}
        return {name: last / first - 1 for name, (first, last) in ends.items()}


class Viewer:
    """Somebody in front of the page."""

    def __init__(self, page: Page, renderer: int, found: Findings, stay_s: float) -> None:
        """For `stay_s` a page is only watched, between what is done with it."""
        self._page = page
        self._stay_ms = 1e3 * stay_s
        self._renderer = renderer
        self._found = found
        self._cdp: CDPSession = page.context.new_cdp_session(page)
        self._begun = time.monotonic()
        self._cdp.send("Network.enable", {"maxTotalBufferSize": 0, "maxResourceBufferSize": 0})
        self._cdp.on("Network.dataReceived", self._keep)
        page.on("pageerror", lambda error: found.broken.append(error.stack or str(error)))
        page.on("response", self._count)

    def round(self, jobs: list[str]) -> None:
        """Race and four looks at a job once, ending where it began."""
        page = self._page
        self._look(RACE)
        page.keyboard.press("f")
        page.wait_for_url(re.compile(r"jobs=[^&]*$"))
        self._weigh("Race")
        page.get_by_test_id(f"race-row-{jobs[0]}").get_by_role("link").first.click()
        page.get_by_test_id("tab-timeline").click()
        self._look(TIMELINE)
        page.get_by_test_id("timeline-latest").click()
        self._weigh("Job")
        self._many_steps()
        page.get_by_test_id("tab-links").click()
        self._links()
        page.get_by_test_id("tab-overview").click()
        self._overview()
        page.evaluate("history.go(-4)")  # the job and three of its tabs
        page.wait_for_url(re.compile(r"/race\?"))

    def _look(self, figure: str) -> None:
        page = self._page
        self._settle(figure)
        page.wait_for_timeout(self._stay_ms)
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("ArrowLeft")  # a step of its own: what is zoomed stays
        self._settle(figure)
        self._watch("click", "() => document.querySelector('[data-testid=why-panel]') !== null")
        page.get_by_test_id("longest-waits").get_by_role("button").first.click()
        self._note("select a wait")
        page.locator("[data-testid=why-text]").wait_for()
        self._watch("keydown", "() => document.querySelector('[data-testid=why-panel]') === null")
        page.keyboard.press("Escape")
        self._note("close")
        self._settle(figure)
        self._zoom_and_pan(figure)
        for key in ("ArrowLeft", "ArrowRight"):
            self._watch("keydown", "(() => { const before = stepOf(); return () => stepOf() !== before; })()")
            page.keyboard.press(key)
            self._note("step by key")
            self._settle(figure)

    def _many_steps(self) -> None:
        """The timeline of all steps so far; while they are few, in detail."""
        page = self._page
        self._settle(TIMELINE)
        step, to_step = page.get_by_test_id("step"), page.get_by_test_id("to-step")
        step.fill("0")
        step.press("Enter")
        page.wait_for_url(re.compile(r"step=0\b"))
        self._settle(TIMELINE)
        to_step.fill((to_step.get_attribute("aria-label") or "").split()[-1])  # "Last step, 0 to 99"
        self._watch("keydown", "() => location.search.includes('to_step=')")
        to_step.press("Enter")
        self._note("choose many steps")
        self._settle(TIMELINE)
        page.wait_for_timeout(self._stay_ms)
        self._zoom_and_pan(TIMELINE)
        self._weigh("Many steps")
        page.get_by_test_id("timeline-latest").click()
        self._settle(TIMELINE)

    def _links(self) -> None:
        """Every figure of the tab, a stretch of time, and a layer."""
        page = self._page
        for figure in (UTILIZATION, TIMELINE, HEATMAP):
            page.get_by_test_id(figure.replace("figure-", "panel-")).scroll_into_view_if_needed()
            self._settle(figure)
        page.wait_for_timeout(self._stay_ms)
        self._zoom_and_pan(HEATMAP)
        row = page.get_by_test_id("plan-table").locator("tr[data-layer]").nth(1)
        row.scroll_into_view_if_needed()
        self._watch("mousemove", f"() => document.querySelector('[data-testid={HEATMAP}]').dataset.layer")
        row.hover()
        self._note("light a layer up")
        self._watch("click", "() => document.querySelector('[data-testid=layer]').value !== ''")
        row.click()
        self._note("choose a layer")
        page.mouse.move(0, 0)
        self._weigh("Links")
        page.keyboard.press("Escape")
        page.get_by_test_id("all-time").click()
        page.wait_for_url(lambda url: "from_ns=" not in url and "layer=" not in url)

    def _overview(self) -> None:
        """How the loss falls, and its value at one step."""
        page = self._page
        self._settle(LOSS)
        page.wait_for_timeout(self._stay_ms)
        page.get_by_test_id(LOSS).scroll_into_view_if_needed()
        box = page.get_by_test_id(LOSS).bounding_box()
        assert box is not None
        self._watch(
            "mousemove", f"() => document.querySelector('[data-testid={LOSS}] .hoverlayer').textContent"
        )
        page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.4 * box["height"])
        self._note("point at a step's loss")
        page.mouse.move(0, 0)
        self._weigh("Overview")

    def _settle(self, figure: str) -> None:
        """Wait until what was asked for is drawn. By a locator: `wait_for_selector` answers a handle, which keeps the
        chart, and all its data, after the page has let it go."""
        self._page.locator(f"[data-testid={figure}][data-drawn]:not([data-pending])").wait_for()

    def _zoom_and_pan(self, figure: str) -> None:
        page = self._page
        page.get_by_test_id(figure).scroll_into_view_if_needed()
        box = page.get_by_test_id(figure).bounding_box()
        assert box is not None
        left, middle = box["x"] + 0.4 * box["width"], box["y"] + 0.4 * box["height"]
        right = box["x"] + 0.7 * box["width"]
        moved = f"(() => {{ const before = rangeOf('{figure}'); return () => rangeOf('{figure}') !== before; }})()"
        page.mouse.move(left, middle)
        page.mouse.down()
        page.mouse.move(right, middle, steps=4)
        self._watch("mouseup", moved)
        page.mouse.up()
        self._note("zoom")
        page.keyboard.down("Shift")
        page.mouse.down()
        self._watch("mousemove", moved)
        page.mouse.move(left, middle, steps=4)
        self._note("pan")
        page.mouse.up()
        page.keyboard.up("Shift")
        page.wait_for_timeout(500)  # the service is asked for what is to be seen now
        self._settle(figure)

    def _watch(self, event: str, done: str) -> None:
        self._page.evaluate(f"watch('{event}', {done})")

    def _note(self, what: str) -> None:
        ms = float(self._page.evaluate("() => window.answered"))
        self._found.answers.setdefault(what, []).append(ms)

    def _weigh(self, name: str) -> None:
        """The heap without garbage, and the renderer's memory."""
        page, found = self._page, self._found
        show(page, hidden=True)  # what is on its way while one weighs would be twice there
        page.wait_for_timeout(LET_GO_MS)
        found.long_tasks += page.evaluate("() => window.longTasks.splice(0)")
        for _ in range(2):  # what finalizers let go is garbage of the next time
            self._cdp.send("HeapProfiler.collectGarbage")
        used = self._cdp.send("Runtime.getHeapUsage")["usedSize"]
        found.heap.setdefault(name, []).append((time.monotonic() - self._begun, int(used)))
        found.resident = memory(self._renderer, "VmHWM")
        show(page, hidden=False)

    def _keep(self, received: dict[str, int]) -> None:
        self._found.kept = min(self._found.kept + received["dataLength"], KEPT_MOST)

    def _count(self, response: Response) -> None:
        self._found.figures += (
            response.status == 200 and re.search(r"/figures/|/race\?", response.url) is not None
        )


class Scales(threading.Thread):
    """Weighs the renderer every second while the block runs."""

    def __init__(self, pid: int, found: Findings) -> None:
        super().__init__(daemon=True)
        self._pid, self._found = pid, found
        self._stop_asked = threading.Event()

    def __enter__(self) -> Scales:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_asked.set()
        self.join()

    def run(self) -> None:
        found, begun = self._found, time.monotonic()
        while not self._stop_asked.wait(1.0):
            found.pss.append(memory(self._pid, "Pss", "smaps_rollup"))
            found.renderer.append(found.pss[-1] - found.kept)
            found.shared.append((time.monotonic() - begun, memory(self._pid, "Pss_Shmem", "smaps_rollup")))


def memory(pid: int, name: str, file: str = "status") -> int:
    """Bytes of a process: VmRSS and VmHWM (the most it ever was) of `status`, Pss and its parts of `smaps_rollup`."""
    found = re.search(rf"^{name}:\s+(\d+) kB", Path(f"/proc/{pid}/{file}").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def renderers(browser: Browser) -> set[int]:
    """Process ids."""
    session = browser.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    return {int(process["id"]) for process in processes if process["type"] == "renderer"}
