"""Minutes of live updates leave the page as small as it was. (An hour of them, and how soon it answers:
`tests/e2e/live_updates.py`.)"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser import ARGUMENTS, find_chromium
from tests.e2e.live_updates import AIM_GROWTH, AIM_MB, Setting, run
from tests.e2e.viewer import PAGES, Findings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser
INTERPRETED = "--js-flags=--jitless --no-flush-bytecode"
"""What V8 compiles is heap, too, and in minutes comes and goes by a tenth of it; this page compiles nothing."""


REPETITIONS = 3
"""Of a few minutes each, in a Chromium of its own: the middle one counts."""
SETTING = Setting(seconds=240, warm_up=60, stay_s=0.3, layers=100, events=50_000, jobs=50, rate=2_000)


def watched(browser: Browser, directory: Path) -> Findings:
    """What minutes of live updates did to the page."""
    directory.mkdir()
    other = browser.browser_type.launch(executable_path=find_chromium(), args=[*ARGUMENTS, INTERPRETED])
    found = Findings(SETTING.warm_up)
    try:
        run(other, directory, SETTING, found)
    finally:
        other.close()
    return found


def growth(found: Findings, page: str) -> float:
    """Of the heap after the warm-up: 0.1 is a tenth."""
    first, last, _ = found.trend(found.heap[page])
    return last / first - 1


@pytest.mark.soak
@pytest.mark.timeout(2400)
def test_the_page_does_not_grow(browser: Browser, tmp_path: Path) -> None:
    found = [watched(browser, tmp_path / str(number)) for number in range(REPETITIONS)]
    for each in found:
        assert each.figures > 20, "it was live"
        assert set(each.heap) == PAGES
    growths = {page: [growth(each, page) for each in found] for page in PAGES}
    assert max(statistics.median(each) for each in growths.values()) < AIM_GROWTH, growths
    # Pictures that pile up are no heap: what they would come to in an hour counts.
    in_an_hour = [max(each.renderer) + 3600 * each.trend(each.shared)[2] for each in found]
    assert statistics.median(in_an_hour) < AIM_MB * 1e6, in_an_hour
