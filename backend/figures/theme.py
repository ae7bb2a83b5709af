"""Colours and templates of both themes.

Layers take their colour from their position along viridis, which stays ordered and distinct with every common
colour vision deficiency. Red is reserved: exposed waiting, and nothing else, is red.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from backend.figures.request import Theme

_VIRIDIS = (
    "#440154",
    "#482475",
    "#414487",
    "#355f8d",
    "#2a788e",
    "#21918c",
    "#22a884",
    "#44bf70",
    "#7ad151",
    "#bddf26",
    "#fde725",
)
_FONT = "Inter, system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif"


@dataclass(frozen=True, kw_only=True)
class Colours:
    """One theme's colours. Backgrounds are the page's own: figures are transparent."""

    text: str
    muted: str
    grid: str
    surface: str
    """Behind labels that lie on the drawing."""
    wait: str
    """Exposed waiting: the reserved red."""
    wait_soft: str
    other: str
    """Bytes that belong to no layer, waiting for input."""
    idle: str
    swap_out: str
    """Saved bytes that leave for a second tier of memory ..."""
    swap_in: str
    """... and come back, or are waited for."""
    again: str
    """What is computed again."""
    compute: str
    veil: str
    """Over what is not part of the comparison: the page's background, half transparent."""
    first: str
    """Who finishes first."""
    rate: str
    """A link's rate line and other limits."""
    series: tuple[str, ...]
    """Jobs and workers, in order (Okabe and Ito's, without the red ones)."""
    viridis: tuple[float, float]
    """The part of the palette that stands out from the background."""


COLOURS: dict[Theme, Colours] = {
    "light": Colours(
        text="#1c2733",
        muted="#5c6875",
        grid="#e4e9ef",
        surface="rgba(255,255,255,0.86)",
        wait="#e0142f",
        wait_soft="#fde3e6",
        other="#a9b4c0",
        idle="#dde3ea",
        swap_out="#b35900",
        swap_in="#f0a32b",
        again="#d65fb0",
        compute="#31688e",
        veil="rgba(255,255,255,0.68)",
        first="#00734f",
        rate="#1c2733",
        series=("#0072b2", "#e08a00", "#009e73", "#a8548b", "#56b4e9", "#7a6a00"),
        viridis=(0.0, 0.9),
    ),
    "dark": Colours(
        text="#e7ecf2",
        muted="#9aa8b7",
        grid="#2b3643",
        surface="rgba(18,24,32,0.82)",
        wait="#f5203a",
        wait_soft="#43202a",
        other="#66727f",
        idle="#36424f",
        swap_out="#d97d2e",
        swap_in="#ffc066",
        again="#f08fcf",
        compute="#4f9bc9",
        veil="rgba(18,24,32,0.68)",
        first="#3ddba8",
        rate="#e7ecf2",
        series=("#56b4e9", "#f0a830", "#2fc79b", "#e29ac6", "#8fa8ff", "#e5d84b"),
        viridis=(0.2, 1.0),
    ),
}


def palette(theme: Theme, count: int) -> list[str]:
    """`count` colours by position, first to last."""
    low, high = COLOURS[theme].viridis
    at = np.linspace(low, high, count) if count > 1 else np.array([(low + high) / 2])
    anchors = np.array([_rgb(colour) for colour in _VIRIDIS], float)
    grid = np.linspace(0, 1, len(anchors))
    channels = np.stack([np.interp(at, grid, anchors[:, i]) for i in range(3)], axis=1).round().astype(int)
    return [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in channels]


def colourscale(theme: Theme, steps: int = 16) -> list[list[object]]:
    """The palette as Plotly's colour scale."""
    colours = palette(theme, steps)
    return [[i / (steps - 1), colour] for i, colour in enumerate(colours)]


def between(low: str, high: str, count: int) -> list[str]:
    """`count` colours from `low` to `high`."""
    channels = np.linspace(_rgb(low), _rgb(high), count).round().astype(int)
    return [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in channels]


def ink(colour: str) -> str:
    """Black or white: what is readable on `colour` (WCAG relative luminance)."""
    r, g, b = ((c / 255) ** 2.2 for c in _rgb(colour))
    return "#ffffff" if 0.2126 * r + 0.7152 * g + 0.0722 * b < 0.30 else "#10161d"


def template(theme: Theme) -> go.layout.Template:
    """Plotly's template of a theme: fonts, grid and margins."""
    colours = COLOURS[theme]
    axis = {
        "gridcolor": colours.grid,
        "linecolor": colours.grid,
        "zerolinecolor": colours.grid,
        "tickcolor": colours.grid,
        "tickfont": {"color": colours.muted, "size": 12},
        "title": {"font": {"color": colours.muted, "size": 12}, "standoff": 8},
        "automargin": True,
        "ticklabeloverflow": "allow",  # else plotly.js measures each label, again and again
        "zeroline": False,
        "ticks": "outside",
        "ticklen": 4,
    }
    return go.layout.Template(
        layout={
            "font": {"family": _FONT, "size": 13, "color": colours.text},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "xaxis": axis,
            "yaxis": axis,
            "colorway": list(colours.series),
            # As much as axes, titles and a key take as a rule: plotly.js draws twice where they need more.
            "margin": {"l": 78, "r": 20, "t": 42, "b": 52},
            "hoverlabel": {"font": {"family": _FONT, "size": 12}, "align": "left"},
            "legend": {
                "orientation": "h",
                "x": 0,
                "y": 1,
                "yanchor": "bottom",
                "xanchor": "left",
                "font": {"size": 12, "color": colours.text},
                "bgcolor": "rgba(0,0,0,0)",
            },
            "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": colours.muted, "activecolor": colours.text},
            "annotationdefaults": {"font": {"color": colours.text, "size": 12}, "showarrow": False},
        }
    )


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
