"""Reading back what a figure draws, as a browser would: from its JSON."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import numpy as np
import plotly.graph_objects as go

MAX_COMPRESSED_BYTES = 250_000
MAX_LISTED_NUMBERS = 64
"""Longer columns of numbers must be typed arrays."""


def answer(figure: go.Figure) -> dict[str, Any]:
    """The figure's JSON, after checking that it is small and that its columns are typed arrays."""
    text = figure.to_json()
    assert len(gzip.compress(text.encode(), 6)) <= MAX_COMPRESSED_BYTES
    content: dict[str, Any] = json.loads(text)
    assert content["layout"]["uirevision"]
    for trace in content["data"]:
        for name in ("x", "y", "z", "base", "width", "customdata"):
            column = trace.get(name)
            assert not (isinstance(column, list) and len(column) > MAX_LISTED_NUMBERS), (trace["type"], name)
    return content


def column(value: Any) -> np.ndarray:
    """A column of a trace, from Plotly's typed-array notation or a list."""
    if isinstance(value, list):
        return np.array(value, float)
    array = np.frombuffer(base64.b64decode(value["bdata"]), np.dtype(value["dtype"]))
    return array.reshape([int(n) for n in value["shape"].split(",")]) if "shape" in value else array


def traces(content: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [trace for trace in content["data"] if trace["type"] == kind]


def notes(content: dict[str, Any]) -> str:
    """All annotations, line breaks as spaces."""
    found = content["layout"].get("annotations", [])
    return " | ".join(note["text"].replace("<br>", " ") for note in found)
