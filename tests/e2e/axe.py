"""What axe finds on a page: rules of accessibility that a program can check (axe-core, a development package of the
page)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from backend.settings import Settings

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

SOURCE = Settings().frontend_dir.parent / "node_modules" / "axe-core" / "axe.min.js"
NOT_INSTALLED = "the page's packages are not installed: ./setup.sh npm ci (make test does)"
RUN = """async ([rules, without, inside]) => {
    if (!window.axe) window.bringAxe();
    const seen = {};
    const alike = [...document.querySelectorAll('[data-testid=events] tbody tr')]
        .filter(({cells}) => (seen[cells[3]?.textContent] = (seen[cells[3]?.textContent] ?? 0) + 1) > 5);
    const counts = impact => impact === 'serious' || impact === 'critical';
    const canCount = ({impact, any, all, none}) => impact
        ? counts(impact)
        : [...any, ...all, ...none].some(check => counts(axe._audit.checks[check.id ?? check].impact));
    const others = axe._audit.rules.filter(rule => !canCount(rule) || without.includes(rule.id));
    const {violations} = await axe.run({include: [inside ?? document], exclude: alike}, {
        resultTypes: ['violations'], preload: {assets: ['media']},
        ...(rules ? {runOnly: {type: 'rule', values: rules}}
            : {rules: Object.fromEntries(others.map(({id}) => [id, {enabled: false}]))}),
    });
    return violations.filter(({impact}) => counts(impact))
        .map(({id, nodes}) => [id, nodes.length, nodes[0].html.slice(0, 200), nodes[0].failureSummary].join(' '));
}"""
"""No rule that is asked looks at the style sheets, which axe would parse for each page. Rules of which no check is
serious or critical are not asked, since their findings would be left out. Of hundreds of events five of each
kind are looked at: their rows are alike."""


def bring(page: Page) -> None:
    """Have axe at hand in whatever the page opens from now on: sent once, and not for each. It runs where it is asked,
    and not in each document."""
    if not SOURCE.is_file():
        pytest.fail(NOT_INSTALLED)
    page.add_init_script(f"window.bringAxe = () => {{\n{SOURCE.read_text(encoding='utf-8')}\n}};")


def serious(
    page: Page, rules: Sequence[str] | None = None, *, without: Sequence[str] = (), of: Locator | None = None
) -> list[str]:
    """Its serious and critical findings on what the page shows now, or on a part `of` it, by these `rules`, or by all
    `without` some; axe was brought there."""
    asked = [
        None if rules is None else list(rules),
        list(without),
        None if of is None else of.element_handle(),
    ]
    found: list[str] = page.evaluate(RUN, asked)
    return found
