"""A page's tab, chosen or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page


def show(page: Page, *, hidden: bool) -> None:
    """As if its tab were chosen, or another one: without a screen every page counts as seen."""
    page.evaluate(
        "hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});"
        " Object.defineProperty(document, 'visibilityState',"
        " {value: hidden ? 'hidden' : 'visible', configurable: true});"
        " document.dispatchEvent(new Event('visibilitychange', {bubbles: true})); }",
        hidden,
    )
