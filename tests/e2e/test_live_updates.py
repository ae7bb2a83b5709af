"""Minutes of live updates leave the page as small as it was. (An hour of them, and how soon it answers:
`tests/e2e/live_updates.py`.)"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.live_updates import AIM_GROWTH, AIM_MB, Setting, run
from tests.e2e.viewer import PAGES, Findings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser


def test_the_page_does_not_grow(browser: Browser, tmp_path: Path) -> None:
    # What V8 compiles is heap, too: a megabyte and more (of 25) in every minute, until each page was used a few times.
    setting = Setting(seconds=240, warm_up=100, stay_s=0.3, layers=100, events=50_000, jobs=50, rate=2_000)
    found = Findings(setting.warm_up)
    run(browser, tmp_path, setting, found)
    assert found.figures > 20, "it was live"
    assert set(found.heap) == PAGES
    assert found.growth < AIM_GROWTH, found.heap
    # Pictures that pile up are no heap: what they would come to in an hour counts.
    first, last = found.ends(found.shared)
    per_s = (last - first) / (2 / 3 * (setting.seconds - setting.warm_up))
    assert max(found.renderer) + 3600 * per_s < AIM_MB * 1e6
