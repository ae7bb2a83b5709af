"""Figures are taken along as they are drawn, and as columns with units; tables with their rows. Files say the job."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from playwright.sync_api import expect

from backend.client import Client
from tests.e2e.views import FORMS, PARTS

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.e2e.views import View
    from tests.e2e.visited import Visited

pytestmark = pytest.mark.browser
FIGURES = {
    "race-ranking": {"race-throughput", "race-learning-0", "race-learning-1"},
    "race-why": {"race"},
    "compare": {"compare-loss", "compare-accuracy", "compare-throughput", "step-time"},
    "job-overview": {"loss", "throughput", "step-time", "speed-up", "memory"},
    "job-timeline-why": {"timeline"},
    "job-stretch": {"utilization", "timeline", "heatmap"},
    "job-staleness": {"drift", "staleness"},
}
"""By page."""
OTHERS = (
    "race-asks", "races", "jobs", "jobs-groups", "devices", "launch-own", "launch-cluster", "launch-refused",
    "job-plan", "job-attempts", "job-events", "job-logs", "job-spec", "job-unknown", "people",
)  # fmt: skip
"""Pages without figures. (Tables that are there for a moment only: `test_job_labels.py`, `test_launch.py`.)"""


def rows_of(file: Path) -> list[list[str]]:
    with file.open(newline="") as opened:
        return list(csv.reader(opened))


def blocks_of(file: Path) -> list[list[list[str]]]:
    """A file's tables, which empty lines part: each with a head over every column."""
    tables: list[list[list[str]]] = [[]]
    for row in rows_of(file):
        if row:
            tables[-1].append(row)
        else:
            tables.append([])
    for table in tables:
        assert len(table) > 1, "a head, and a row at least"
        assert {len(row) for row in table} == {len(table[0])}, f"columns of one length: {table[0]}"
        assert all(table[0]), f"every column has a head: {table[0]}"
    return tables


def table_of(page: Page, near: str) -> tuple[list[str], list[list[str]]]:
    """The head and the rows of the table's file that is taken near a test id."""
    with page.expect_download() as download:
        page.get_by_test_id(near).locator(
            "xpath=ancestor-or-self::*[.//*[@data-testid='table-csv']][1]"
        ).get_by_test_id("table-csv").click()
    ((head, *rows),) = blocks_of(download.value.path())
    return head, rows


@pytest.mark.timeout(900)  # the visit to all pages: on slow cores it takes more than the usual 300 s
@pytest.mark.parametrize("name", [*FIGURES, *OTHERS])
def test_every_figure_and_table_of_a_page_is_taken_along(
    visited: Visited, pages: dict[str, View], name: str
) -> None:
    assert {*FIGURES, *OTHERS, *PARTS, *FORMS} == set(pages), "no page is left out"
    taken = visited.taken[name]
    assert taken.without == []
    assert set(taken.figures) == {f"figure-{figure}" for figure in FIGURES.get(name, ())}
    assert len(taken.pictures) == len(taken.figures)
    for file in taken.tables:
        assert blocks_of(file)
    for file in taken.pictures:
        picture = ElementTree.parse(file).getroot()
        assert picture.tag.endswith("svg")
        assert len(list(picture.iter())) > 50, f"the picture is blank: {file}"


def test_the_losses_of_the_file_are_the_apis(page: Page, client: Client, recorded: list[str]) -> None:
    page.goto(f"/jobs/{recorded[1]}?tab=overview")
    expect(page.get_by_test_id("figure-loss")).to_have_attribute("data-drawn", "true")
    with page.expect_download() as download:
        page.get_by_test_id("panel-loss").get_by_test_id("figure-csv").click()
    assert download.value.suggested_filename == "recorded-p3-loss.csv"
    head, *rows = rows_of(download.value.path())
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
    assert rows[0][0] == "layer"


def test_a_step_s_events_are_taken_along_as_numbers(page: Page, client: Client, recorded: list[str]) -> None:
    page.goto(f"/jobs/{recorded[1]}?tab=events&step=5")
    expect(page.get_by_test_id("events")).to_be_visible()
    head, rows = table_of(page, "events")
    events = client.events(recorded[1], step_from=5, step_to=5)
    shown = page.get_by_test_id("events").locator("tbody tr").count()
    assert len(rows) == shown
    at, took, size = (head.index(name) for name in ("at (ms)", "took (ms)", "bytes"))
    for row, start, end, count in zip(
        rows, events.start_ns[:shown], events.end_ns[:shown], events.bytes[:shown], strict=True
    ):
        assert float(row[at]) == pytest.approx((start - events.start_ns[0]) / 1e6, abs=1e-6)
        assert float(row[took]) == pytest.approx((end - start) / 1e6, abs=1e-6)
        assert int(row[size] or 0) == max(count, 0)


def test_a_stretch_and_a_wait_s_explanation_are_taken_along_as_numbers(
    page: Page, client: Client, recorded: list[str]
) -> None:
    meta = client.figure(recorded[1], "timeline", step=5).layout.meta
    window = {"from_ns": meta["from_ns"], "to_ns": meta["to_ns"]}
    page.goto(f"/jobs/{recorded[1]}?tab=links&from_ns={window['from_ns']}&to_ns={window['to_ns']}")
    expect(page.get_by_test_id("stretch-table")).to_be_visible()
    head, (_, *rows) = table_of(page, "stretch-table")
    stretch = client.stretch(recorded[1], **window)
    assert head[:3] == ["layer", "waited for (ms)", "waits"]
    assert len(head) == 3 + 2 * len(stretch.links)
    for row, layer in zip(rows, stretch.layers, strict=True):
        assert float(row[1]) == pytest.approx(layer.waited_ns / 1e6)
        for one in layer.moved:
            assert int(row[3 + 2 * one.link]) == one.bytes
            assert (row[4 + 2 * one.link] == "") == (one.share is None)

    wait = meta["waits"][0]
    why = ",".join(str(wait[part]) for part in ("party", "step", "layer", "unit"))
    page.goto(f"/jobs/{recorded[1]}?tab=timeline&step=5&why={why}")
    expect(page.get_by_test_id("why-stretches")).to_be_visible()
    head, rows = table_of(page, "why-stretches")
    took = head.index("for (ms)")
    assert sum(float(row[took]) for row in rows) == pytest.approx(wait["ns"] / 1e6)
