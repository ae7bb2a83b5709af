"""What a page shows only for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

# Whoever looks now and then, as `expect` does, up to a second apart, may come too late.
WATCH = """([id, wanted]) => {
    const shown = () => [...document.querySelectorAll(`[data-testid=${id}]`)]
        .some(one => one.dataset.state === wanted || one.textContent.includes(wanted));
    window.wasShown = shown();
    const watching = new MutationObserver(() => {
        window.wasShown ||= shown();
        if (window.wasShown) watching.disconnect();
    });
    watching.observe(document, {attributes: true, characterData: true, childList: true, subtree: true});
}"""


@contextmanager
def expect_shown(page: Page, test_id: str, wanted: str, *, within_ms: float) -> Iterator[None]:
    """From the begin of the block on, and within this time after it, what has this test id shows the text, or is in the
    state, however shortly. The page is not loaded again meanwhile."""
    page.evaluate(WATCH, [test_id, wanted])
    yield
    page.wait_for_function("window.wasShown", timeout=within_ms)
