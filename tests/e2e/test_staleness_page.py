"""Staleness of a job whose workers drift: on its page, in files, in the API and in the terminal the same numbers."""

from __future__ import annotations

import csv
import re
import time
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from typer.testing import CliRunner

from backend.cli.main import app
from backend.client import Client

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.browser


# Where the first window of a worker's staleness is read, in the middle of its panel.
FIRST_WINDOW = """chart => {
    const {xaxis: {_offset, l2p}, yaxis} = chart._fullLayout, frame = chart.getBoundingClientRect();
    const {x: [first]} = chart._fullData.find(({mode}) => mode === 'markers');
    return [frame.left + _offset + l2p(first), frame.top + yaxis._offset + yaxis._length / 2];
}"""


def taken(page: Page, panel: str, what: str) -> list[list[str]]:
    """The rows of a file that is taken along."""
    with page.expect_download() as download:
        page.get_by_test_id(panel).get_by_test_id(what).click()
    file: Path = download.value.path()
    with file.open(newline="") as opened:
        return list(csv.reader(opened))


def test_only_a_job_whose_workers_drift_has_the_tab(page: Page, recorded: list[str], drifting: str) -> None:
    page.goto(f"/jobs/{recorded[1]}?tab=staleness")
    expect(page.get_by_test_id("tab-overview")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_test_id("tab-staleness")).to_have_count(0)
    page.goto(f"/jobs/{drifting}")
    page.get_by_test_id("tab-staleness").click()
    expect(page).to_have_url(re.compile("tab=staleness"))
    expect(page.get_by_test_id("staleness-workers")).to_be_visible()


def hover(page: Page, drift: Locator) -> None:
    """Point at the first window until it says whose it is: a page that still grows moves it away."""
    until = time.monotonic() + 30
    told = drift.locator(".hoverlayer")
    while "worker 0" not in (told.text_content() or ""):
        assert time.monotonic() < until, told.text_content()
        drift.scroll_into_view_if_needed()
        page.mouse.move(0, 0)
        page.mouse.move(*drift.evaluate(FIRST_WINDOW))
        page.wait_for_timeout(200)


def test_page_file_api_and_terminal_say_the_same(
    page: Page, client: Client, drifting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = client.staleness(drifting)
    units = client.job(drifting).plan.units
    assert found.everything.contributions == sum(12 * units for _ in found.workers)
    assert [worker.steps for worker in found.workers] == [12, 12]
    assert found.everything.most, "each of the first step's contributions was computed on the same version"

    page.goto(f"/jobs/{drifting}?tab=staleness")
    words = page.get_by_test_id("staleness-words")
    mean = f"{found.everything.mean:.2f} updates stale on average, at most {found.everything.most:,}"
    expect(words).to_contain_text(f"{found.everything.contributions:,} contributions, {mean}")
    head, *rows = taken(page, "staleness", "table-csv")
    assert head[:2] == ["worker", "steps"]
    assert [row[0] for row in rows] == [each.name for each in found.workers]
    assert [[float(cell) for cell in row[1:]] for row in rows] == [
        pytest.approx(
            [each.steps, each.ahead, each.most_ahead, each.contributions, each.mean, each.most], rel=1e-6
        )
        for each in found.workers
    ], "a file has all digits, where the table rounds"

    head, *rows = taken(page, "panel-staleness", "figure-csv")
    assert head[1] == "0: not stale (share of the contributions)"
    assert [row[0] for row in rows[:3]] == ["all workers", "worker 0", "worker 1"]
    assert float(rows[0][1]) == pytest.approx(found.everything.counts[0] / found.everything.contributions)
    drift = page.get_by_test_id("figure-drift")
    expect(drift).to_have_attribute("data-drawn", "true")
    hover(page, drift)
    head, *_ = taken(page, "panel-drift", "figure-csv")
    assert head[:3] == ["time (s)", "staleness: worker 0 (updates)", "steps ahead: worker 0 (steps)"]

    monkeypatch.setenv("TRAINYARD_URL", client.url)
    said = CliRunner().invoke(app, ["staleness", drifting]).stdout
    assert mean in said
    other = found.workers[1]
    row = rf"^worker 1 +12 +{other.ahead} +{other.most_ahead} +{other.contributions} "
    assert re.search(row, said, re.M)
    assert (
        f"{found.everything.mean:.2f} updates on average"
        in CliRunner().invoke(app, ["show", drifting]).stdout
    )
