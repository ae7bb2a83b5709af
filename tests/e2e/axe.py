"""What axe finds on a page: rules of accessibility that a program can check (axe-core, a development package of the
page)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from backend.settings import Settings

if TYPE_CHECKING:
    from playwright.sync_api import Page

SOURCE = Settings().frontend_dir.parent / "node_modules" / "axe-core" / "axe.min.js"
NOT_INSTALLED = "the page's packages are not installed: ./setup.sh npm ci (make test does)"
RUN = """async rules => (await axe.run(document, {
        resultTypes: ['violations'], preload: {assets: ['media']},
        ...(rules ? {runOnly: {type: 'rule', values: rules}} : {}),
    })).violations
    .filter(({impact}) => impact === 'serious' || impact === 'critical')
    .map(({id, nodes}) => [id, nodes.length, nodes[0].html.slice(0, 200), nodes[0].failureSummary].join(' '))"""
"""No rule that is asked looks at the style sheets, which axe would parse for each page."""


def bring(page: Page) -> None:
    """Have axe in whatever the page opens from now on: sent once, and not for each."""
    if not SOURCE.is_file():
        pytest.fail(NOT_INSTALLED)
    page.add_init_script(path=SOURCE)


def serious(page: Page, rules: Sequence[str] | None = None) -> list[str]:
    """Its serious and critical findings on what the page shows now, by these `rules` or all; axe was brought there."""
    found: list[str] = page.evaluate(RUN, None if rules is None else list(rules))
    return found
