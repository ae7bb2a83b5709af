"""What every figure shares: how it is finished, and what it says when there is nothing to draw."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import plotly.graph_objects as go

from backend.figures.markup import as_text
from backend.figures.request import FigureRequest
from backend.figures.theme import COLOURS, template

SIGN_LINE_PX = 18
TIME_MARGINS_PX = {True: (92, 26), False: (150, 26)}
"""Left and right of panels that share a time axis, by whether they are narrow: room for the names of their rows, and
for half of a time that stands below the axis' very end."""
TIME_BELOW_PX = 64
"""Below them: the times, and the palette or the axis's title."""


def finish(
    figure: go.Figure,
    request: FigureRequest,
    *,
    revision: str,
    height: int,
    alt: str,
    meta: dict[str, Any] | None = None,
) -> go.Figure:
    """Theme, height and `uirevision`. While `revision` stays the same, a viewer's zoom and hidden traces
    stay. `alt` says what the drawing shows to who cannot see it: its headline numbers."""
    figure.update_layout(
        template=template(request.theme),
        height=height,
        uirevision=revision,
        autosize=True,
        meta={**(meta or {}), "alt": alt},
        dragmode=False if request.narrow else "zoom",  # on a phone, a finger scrolls the page
    )
    return figure


def share_time_axis(figure: go.Figure, request: FigureRequest) -> None:
    """Give a panel the margins of all others that may stand above or below it, whatever their labels are: the same time
    is then at the same pixel in all of them."""
    left, right = TIME_MARGINS_PX[request.narrow]
    figure.update_layout(margin={"l": left, "r": right})
    figure.update_yaxes(automargin=False)
    figure.update_xaxes(automargin="height")


def notice(request: FigureRequest, *, revision: str, text: str, height: int = 260) -> go.Figure:
    """A figure that has nothing to draw, and says why."""
    figure = go.Figure()
    figure.update_xaxes(visible=False, fixedrange=True)
    figure.update_yaxes(visible=False, fixedrange=True)
    figure.add_annotation(
        text="<br>".join(map(as_text, wrap(text, max(28, request.width // 11)))),
        xref="paper",
        yref="paper",
        x=0.5,
        y=0.5,
        align="center",
        font={"size": 15, "color": COLOURS[request.theme].muted},
    )
    return finish(figure, request, revision=revision, height=height, alt=text, meta={"empty": True})


def sign(figure: go.Figure, request: FigureRequest, text: str) -> None:
    """Write `text` into the drawing, above everything else, where an exported picture carries it along."""
    lines = wrap(text, max(24, (request.width - 130) // 7))  # as wide as the plot is, beside its labels
    above = figure.layout.margin.t
    above = figure.layout.template.layout.margin.t if above is None else above
    legend = 0
    if request.narrow and figure.layout.showlegend is not False:  # there, each of its entries takes a line
        entries = sum(trace.name is not None and trace.showlegend is not False for trace in figure.data)
        legend = SIGN_LINE_PX * max(entries - 1, 0)
    above, room = above + legend, SIGN_LINE_PX * len(lines)
    figure.update_layout(height=figure.layout.height + legend + room, margin={"t": above + room})
    figure.add_annotation(
        text="<br>".join(map(as_text, lines)),
        name="signature",
        xref="paper",
        yref="paper",
        x=0,
        y=1,
        xanchor="left",
        yanchor="bottom",
        yshift=above - 6,
        align="left",
        font={"size": 12, "color": COLOURS[request.theme].muted},
    )


@dataclass(frozen=True, kw_only=True)
class Labels:
    """What must stand beside everything that rests on it."""

    rehearsed: str | None = None
    """The label of a rehearsal; None: the jobs train."""
    slowed: str | None = None
    """Which workers are slowed on purpose; None: none is."""


def say_labels(figure: go.Figure, request: FigureRequest, labels: Labels) -> None:
    """Say that a figure rests on rehearsals, and on workers that are slowed: in the drawing, in its words, and in
    `layout.meta` under each label's name."""
    for name, label in asdict(labels).items():
        if label is not None:
            sign(figure, request, label)
            meta = figure.layout.meta
            figure.update_layout(meta={**meta, name: label, "alt": f"{meta['alt']} ({label})"})


def wrap(text: str, columns: int) -> list[str]:
    """Lines of at most `columns` characters, broken at spaces."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > columns:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def format_ms(ns: float) -> str:
    """`41 ms`, `0.42 ms`, `1.3 s`: three significant digits or whole numbers."""
    ms = ns / 1e6
    if abs(ms) >= 1000:
        return f"{ms / 1000:.3g} s"
    return f"{ms:.0f} ms" if abs(ms) >= 20 else f"{ms:.2g} ms"
