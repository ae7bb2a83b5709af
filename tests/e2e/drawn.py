"""What a chart on the page really draws."""

from __future__ import annotations

import base64
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

DRAWN_LIMIT_S = 30.0

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


def wait_until_drawn(page: Page, figure: str, name: str, values: list[float]) -> dict[str, Any]:
    """The trace of that name once it shows these values: the page asks again by itself, and what it drew before the
    last telemetry came has as many points already."""
    deadline = time.monotonic() + DRAWN_LIMIT_S
    while (drawn := trace(page, figure, name))["y"] != pytest.approx(values, rel=1e-6):
        assert time.monotonic() < deadline, f"{figure} shows {drawn['y']}, the API has {values}"
        page.wait_for_timeout(200)
    return drawn


def said(values: Any) -> list[Any]:
    """A trace's x or y as the API sends it: a list, or Plotly's typed array."""
    if isinstance(values, dict):
        return np.frombuffer(base64.b64decode(values["bdata"]), dtype=values["dtype"]).tolist()
    return list(values or [])
