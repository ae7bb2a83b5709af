"""What a chart on the page really draws."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

# Plotly's own view of the traces, after it has decoded the typed arrays.
_TRACES = """chart => chart._fullData.map(trace => ({
    name: trace.name, x: Array.from(trace.x ?? []), y: Array.from(trace.y ?? []),
    shown: trace.visible === true,
}))"""


def traces(page: Page, figure: str) -> list[dict[str, Any]]:
    """The traces of the figure with this test id: name, x, y, shown."""
    chart = page.get_by_test_id(figure)
    expect(chart).to_have_attribute("data-drawn", "true")
    found: list[dict[str, Any]] = chart.evaluate(_TRACES)
    return found


def trace(page: Page, figure: str, name: str) -> dict[str, Any]:
    """The one trace of that name."""
    (found,) = [entry for entry in traces(page, figure) if entry["name"] == name]
    return found


def wait_for_points(page: Page, figure: str, count: int) -> None:
    """Wait until the figure's first trace has so many points: the page asks again by itself."""
    page.wait_for_function(
        "([id, count]) => document.querySelector(`[data-testid=${id}]`)?._fullData?.[0]?.x?.length === count",
        arg=[figure, count],
    )


def said(values: Any) -> list[Any]:
    """A trace's x or y as the API sends it: a list, or Plotly's typed array."""
    if isinstance(values, dict):
        return np.frombuffer(base64.b64decode(values["bdata"]), dtype=values["dtype"]).tolist()
    return list(values or [])
