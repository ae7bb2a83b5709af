"""Text of other people inside of a page, in elements and attributes."""

from __future__ import annotations

import html

from engine.plan.characters import visible


def escape(text: str) -> str:
    """It makes no element, and drives no terminal in which the page is printed."""
    return html.escape(visible(text))
