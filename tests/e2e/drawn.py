"""What a chart on the page really draws."""

from __future__ import annotations

import base64
import re
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page, Request

DRAWN_LIMIT_S = 60.0
PARTS = ("type", "name", "x", "y", "z", "base", "x0", "dx")
"""Of a trace: which kind it is, and where its lines, bars and cells are."""
LISTS = ("x", "y", "z")

# Plotly's own view of the traces, after it has decoded the typed arrays.
_TRACES = """(chart, parts) => {
    const plain = values =>
        Array.isArray(values) || ArrayBuffer.isView(values) ? Array.from(values, plain) : values ?? null;
    return chart._fullData.map(trace => ({
        ...Object.fromEntries(parts.map(part => [part, plain(trace[part])])), shown: trace.visible === true,
    }));
}"""

# Lines, bars and filled cells of some size, inside of the chart.
_MARKS = """chart => {
    const frame = chart.getBoundingClientRect();
    const marks = chart.querySelectorAll('.cartesianlayer .mlayer path');
    return Array.from(marks).filter(mark => {
        const box = mark.getBoundingClientRect();
        return box.width + box.height > 0 && box.right > frame.left && box.left < frame.right
            && box.bottom > frame.top && box.top < frame.bottom;
    }).length;
}"""


def traces(page: Page, figure: str) -> list[dict[str, Any]]:
    """The traces of the figure with this test id: PARTS, and whether it is shown. x, y and z are lists."""
    chart = page.get_by_test_id(figure)
    expect(chart).to_have_attribute("data-drawn", "true")
    found: list[dict[str, Any]] = chart.evaluate(_TRACES, list(PARTS))
    return [entry | {part: entry[part] or [] for part in LISTS} for entry in found]


def trace(page: Page, figure: str, name: str) -> dict[str, Any]:
    """The one trace of that name."""
    (found,) = [entry for entry in traces(page, figure) if entry["name"] == name]
    return found


class Answers:
    """What the API answers at the address that the page asked a figure at last, by its name (`race`: the race's)."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._asked: dict[str, str] = {}
        page.on("request", self._note)

    def __call__(self, name: str) -> dict[str, Any]:
        """The figure, asked for once more."""
        answer: dict[str, Any] = self._page.request.get(self._asked[name]).json()
        return answer["figure"] if name == "race" else answer

    def _note(self, request: Request) -> None:
        if match := re.search(r"/figures/([\w-]+)\?|/api/v1/(race)\?", request.url):
            self._asked[match[1] or match[2]] = request.url


def expect_drawn(page: Page, name: str, answers: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """The answer of that name, once the page draws exactly that, and some of it is to be seen. The page may ask again
    while this waits: its frame's width settles, telemetry comes."""
    if name != "race":  # figures are asked for when they come into view
        page.get_by_test_id(f"panel-{name}").scroll_into_view_if_needed()
    chart = page.get_by_test_id(f"figure-{name}")
    expect(chart).to_have_attribute("data-drawn", "true")
    deadline = time.monotonic() + DRAWN_LIMIT_S
    while True:
        content = answers(name)
        wrong = differences(traces(page, f"figure-{name}"), content["data"])
        if not wrong:
            break
        assert time.monotonic() < deadline, f"{name}: {wrong}"
        page.wait_for_timeout(200)
    assert not content["layout"]["meta"].get("empty"), f"{name} says that there is nothing to draw"
    assert any(said(entry.get(part)) for entry in content["data"] for part in LISTS), f"{name} has no data"
    assert chart.evaluate(_MARKS) > 0, f"{name} is blank"
    return content


def window_of(page: Page) -> dict[str, int]:
    """The stretch of time in the page's address, in ns."""
    return {key: int(value) for key, value in re.findall(r"(from_ns|to_ns)=(\d+)", page.url)}


def differences(drawn: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> list[str]:
    """Where drawn traces are not those of an answer; what the answer leaves open plotly.js may fill in."""
    if len(drawn) != len(wanted):
        return [f"{len(drawn)} traces instead of {len(wanted)}"]
    return [
        f"trace {index} ({told.get('name')}): {part}"
        for index, (entry, told) in enumerate(zip(drawn, wanted, strict=True))
        for part in PARTS
        if (part in LISTS or told.get(part) is not None) and not _same(entry[part], told.get(part))
    ]


def _same(drawn: Any, told: Any) -> bool:
    if told is None or isinstance(told, dict | list):
        told = said(told)
    if isinstance(told, str) or (isinstance(told, list) and any(isinstance(value, str) for value in told)):
        return bool(drawn == told)
    ours, theirs = (np.array(values, float) for values in (drawn, told))  # None: no number
    return ours.shape == theirs.shape and np.array_equal(ours, theirs, equal_nan=True)


def wait_until_drawn(page: Page, figure: str, name: str, values: list[float]) -> dict[str, Any]:
    """The trace of that name once it shows these values: the page asks again by itself, and what it drew before the
    last telemetry came has as many points already, or no such trace yet."""
    deadline = time.monotonic() + DRAWN_LIMIT_S
    while True:
        drawn = [entry for entry in traces(page, figure) if entry["name"] == name]
        if len(drawn) == 1 and drawn[0]["y"] == pytest.approx(values, rel=1e-6):
            return drawn[0]
        assert time.monotonic() < deadline, f"{figure} shows {drawn}, the API has {values}"
        page.wait_for_timeout(200)


def said(values: Any) -> list[Any]:
    """A trace's x, y, z or base as the API sends it: a list, or Plotly's typed array."""
    if isinstance(values, dict):
        array = np.frombuffer(base64.b64decode(values["bdata"]), dtype=values["dtype"])
        if "shape" in values:
            array = array.reshape([int(length) for length in values["shape"].split(",")])
        found: list[Any] = array.tolist()
        return found
    return list(values or [])
