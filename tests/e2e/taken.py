"""What of a page is offered to be taken along, and what comes when it is: figures as drawn and as columns, tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator, Page

    from tests.e2e.views import View

AT_ONCE = 10
"""Of more files of one page that follow one another so closely Chromium does not hand over all: never the eleventh."""
OFFERED = """() => {
    const figures = Array.from(document.querySelectorAll('.ty-figure'), one => one.dataset.testid);
    const without = [
        ...Array.from(document.querySelectorAll('.ty-figure'))
            .filter(({parentElement: frame}) => !['figure-svg', 'figure-csv']
                .every(what => frame.querySelector(`[data-testid=${what}]`)))
            .map(one => one.dataset.testid),
        ...Array.from(document.querySelectorAll('table'))
            .filter(table => !table.closest(':has(> [data-testid=table-csv]), [data-testid=choose-jobs]'))
            .map(one => one.outerHTML.slice(0, 200)),
    ];
    return [figures, without];
}"""
"""The figures of the page, and what of them and of its tables cannot be taken along. Where one ticks jobs is a form."""


@dataclass(frozen=True, kw_only=True)
class Taken:
    """Of one page."""

    figures: list[str]
    """The test ids of its figures."""
    without: list[str]
    """What cannot be taken along."""
    tables: list[Path]
    """The files of columns, of figures and of tables."""
    pictures: list[Path]


def downloaded(page: Page, button: Locator, kind: str) -> Path:
    """The file that a button hands over; its name says what it is of."""
    with page.expect_download() as download:
        button.click()
    assert re.fullmatch(rf"[\w.-]{{3,}}\.{kind}", download.value.suggested_filename)
    found: Path = download.value.path()
    return found


def take_along(page: Page, view: View) -> Taken:
    """All that the page offers, which shows this view."""
    figures, without = page.evaluate(OFFERED)
    columns = page.get_by_test_id("figure-csv").or_(page.get_by_test_id("table-csv"))
    drawn = page.get_by_test_id("figure-svg")
    tables = [downloaded(page, button, "csv") for button in columns.all()]
    if drawn.count() + len(tables) > AT_ONCE:
        view.open(page)
    pictures = [downloaded(page, button, "svg") for button in drawn.all()]
    return Taken(figures=figures, without=without, tables=tables, pictures=pictures)
