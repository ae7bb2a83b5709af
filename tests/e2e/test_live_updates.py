"""Minutes of live updates leave the page as small as it was. (An hour of them, and how soon it answers:
`tests/e2e/live_updates.py`.)"""

from __future__ import annotations

from collections.abc import Iterator
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


@pytest.fixture
def interpreting(browser: Browser) -> Iterator[Browser]:
    other = browser.browser_type.launch(executable_path=find_chromium(), args=[*ARGUMENTS, INTERPRETED])
    yield other
    other.close()


@pytest.mark.timeout(900)
def test_the_page_does_not_grow(interpreting: Browser, tmp_path: Path) -> None:
    setting = Setting(seconds=180, warm_up=50, stay_s=0.3, layers=100, events=50_000, jobs=50, rate=2_000)
    found = Findings(setting.warm_up)
    run(interpreting, tmp_path, setting, found)
    assert found.figures > 20, "it was live"
    assert set(found.heap) == PAGES
    assert max(found.growths.values()) < AIM_GROWTH, found.heap
    # Pictures that pile up are no heap: what they would come to in an hour counts.
    first, last = found.ends(found.shared)
    per_s = (last - first) / (2 / 3 * (setting.seconds - setting.warm_up))
    assert max(found.renderer) + 3600 * per_s < AIM_MB * 1e6
