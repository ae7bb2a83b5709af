"""Figures are taken along as they are drawn, and as columns with units; tables with their rows. Files say the job."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from playwright.sync_api import expect

from backend.client import Client

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
FIGURES = {
    "overview": ("loss", "throughput", "step-time", "speed-up", "memory"),
    "timeline": ("timeline",),
    "links": ("utilization", "timeline", "heatmap"),
}


def taken(page: Page, panel: str, what: str) -> Path:
    frame = page.get_by_test_id(panel)
    with page.expect_download() as download:
        frame.get_by_test_id(what).click()
    kind = what.split("-")[1]
    named = panel.removeprefix("panel-")
    assert download.value.suggested_filename == f"recorded-p3-{named}.{kind}"
    found: Path = download.value.path()
    return found


def rows_of(file: Path) -> list[list[str]]:
    with file.open(newline="") as opened:
        return list(csv.reader(opened))


@pytest.mark.parametrize("tab", list(FIGURES))
def test_every_figure_of_a_job_is_taken_along(page: Page, recorded: list[str], tab: str) -> None:
    page.goto(f"/jobs/{recorded[1]}?tab={tab}&step=5")
    for name in FIGURES[tab]:
        page.get_by_test_id(f"panel-{name}").scroll_into_view_if_needed()
        expect(page.get_by_test_id(f"figure-{name}")).to_have_attribute("data-drawn", "true")
        rows = rows_of(taken(page, f"panel-{name}", "figure-csv"))
        assert len(rows) > 1, name
        assert len({len(row) for row in rows if row}) <= 1 or [] in rows, f"{name}: columns of one length"
        assert all(rows[0]), f"{name}: every column has a head"
        picture = ElementTree.parse(taken(page, f"panel-{name}", "figure-svg")).getroot()
        assert picture.tag.endswith("svg")
        assert len(list(picture.iter())) > 50, f"{name}: the picture is blank"


def test_the_losses_of_the_file_are_the_apis(page: Page, client: Client, recorded: list[str]) -> None:
    page.goto(f"/jobs/{recorded[1]}?tab=overview")
    expect(page.get_by_test_id("figure-loss")).to_have_attribute("data-drawn", "true")
    head, *rows = rows_of(taken(page, "panel-loss", "figure-csv"))
    assert head[0] == "step"
    column = next(at for at, name in enumerate(head) if "training loss" in name)
    known = {point.step: point.value for point in client.metrics(recorded[1], "loss").series["loss"]}
    found = {int(row[0]): float(row[column]) for row in rows if row and row[column]}
    assert found == pytest.approx(known, rel=1e-6)


def test_a_table_is_taken_along_with_the_rows_that_it_shows(page: Page, recorded: list[str]) -> None:
    page.goto(f"/jobs/{recorded[1]}?tab=plan")
    table = page.get_by_test_id("plan-table")
    expect(table).to_be_visible()
    with page.expect_download() as download:
        page.get_by_test_id("table-csv").click()
    assert download.value.suggested_filename == "recorded-p3-plan.csv"
    rows = rows_of(download.value.path())
    assert len(rows) == 1 + table.locator("tbody tr").count()
    assert rows[0][0] == "Layer"
