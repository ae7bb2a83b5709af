"""Staleness: how late contributions came, of each worker and to each layer, as shares of all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from backend.figures.base import finish, notice
from backend.figures.bins import neighbours
from backend.figures.drifted import Histogram, classes, together
from backend.figures.facts import JobFacts
from backend.figures.facts import together as one_name
from backend.figures.markup import as_text
from backend.figures.request import FigureRequest
from backend.figures.rows import abbreviate
from backend.figures.source import Source
from backend.figures.theme import COLOURS, ink, palette

MOST_LAYERS = 32
"""Rows; neighbouring layers of deeper networks share one."""
MOST_WORKERS = 32
ROW_PX = 24
KEY_PX = 19
NOT_STALE = "0: not stale"
TOGETHER = "Workers of this job wait for one another in every step: no contribution is stale"
NOTHING = "No staleness: no contribution was applied, or the job ran before staleness was recorded"


def staleness(source: Source, request: FigureRequest) -> go.Figure:
    """A row for all contributions, for each worker's, and for each layer's."""
    job, revision = source.job, f"staleness:{source.job.id}"
    workers = source.stale_by_worker()
    if not workers:
        text = NOTHING if source.drifts() else TOGETHER
        return notice(request, revision=revision, text=text)
    return draw(job, workers, source.stale_by_layer(), request)


def draw(
    job: JobFacts, workers: dict[int, Histogram], layers: dict[int, Histogram], request: FigureRequest
) -> go.Figure:
    """The figure of histograms by worker and by layer."""
    colours = COLOURS[request.theme]
    everything = together(list(workers.values()))
    most = everything.most or 0
    groups = classes(most)
    rows = [
        ("all workers", everything),
        *_of_workers(job, workers, request),
        *_of_layers(job, layers, request),
    ]
    names = _unique([as_text(name) for name, _ in rows])
    counts = np.array([histogram.within(groups) for _, histogram in rows])
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    figure = go.Figure()
    shades = palette(request.theme, max(len(groups), 2))
    for at, (low, high) in enumerate(groups):
        name = NOT_STALE if low == high == 0 else str(low) if low == high else f"{low} to {high}"
        colour = colours.idle if low == high == 0 else shades[at]
        figure.add_trace(
            go.Bar(
                orientation="h",
                x=shares[:, at],
                y=names,
                name=name,
                marker={"color": colour, "line": {"width": 0}},
                text=[_share(value) for value in shares[:, at]],
                textposition="inside",
                insidetextanchor="middle",
                insidetextfont={"color": colours.text if low == high == 0 else ink(colour)},
                textangle=0,
                customdata=counts[:, at],
                hovertemplate=f"<b>%{{y}}</b>, staleness {name}: %{{x:.1%}}, %{{customdata:,}} contributions"
                "<extra></extra>",
            )
        )
    edges = [0.5, 0.5 + min(len(workers), MOST_WORKERS)]
    for edge in edges:
        figure.add_hline(y=edge, line={"color": colours.muted, "width": 1, "dash": "dot"})
    figure.update_xaxes(
        title_text="share of the contributions", tickformat=".0%", range=[0, 1], fixedrange=True
    )
    figure.update_yaxes(
        type="category",
        autorange="reversed",
        showgrid=False,
        fixedrange=True,
        ticks="",
        tickmode="array",
        tickvals=names,
        ticktext=names,
    )
    figure.update_layout(
        barmode="stack",
        bargap=0.18,
        hovermode="closest",
        showlegend=True,
        legend={"traceorder": "normal", "title": {"text": "staleness "}},
        uniformtext={"mode": "hide", "minsize": 9},
    )
    legend = KEY_PX * (len(groups) // 2) if request.narrow else 0  # two of its entries in a line there
    return finish(
        figure,
        request,
        revision=f"staleness:{job.id}",
        height=118 + ROW_PX * len(names) + legend,
        alt=_words(job, everything, workers),
    )


def _of_workers(
    job: JobFacts, workers: dict[int, Histogram], request: FigureRequest
) -> list[tuple[str, Histogram]]:
    """The most stale ones first, where they are more than fit; in their own order."""
    chosen = sorted(sorted(workers, key=lambda one: -(workers[one].mean or 0))[:MOST_WORKERS])
    return [
        (abbreviate(job.party(one)) if request.narrow else job.party(one), workers[one]) for one in chosen
    ]


def _of_layers(
    job: JobFacts, layers: dict[int, Histogram], request: FigureRequest
) -> list[tuple[str, Histogram]]:
    """In forward order, neighbours together where there are many."""
    room = 10 if request.narrow else 24
    found = []
    for row in neighbours(max(layers, default=-1) + 1, MOST_LAYERS):
        own = [layers[layer] for layer in row if layer in layers]
        if own:
            found.append((_layer_name(job, row, room), together(own)))
    return found


def _layer_name(job: JobFacts, row: range, room: int) -> str:
    if len(row) == 1 and len(name := job.message_named(row.start)) <= room:
        return name
    return one_name(lambda layer: job.fitting(layer, room), row[0], row[-1])


def _unique(names: Sequence[str]) -> list[str]:
    """Rows of one name would be drawn as one: the later ones say their place, too."""
    found: list[str] = []
    for at, name in enumerate(names):
        found.append(f"{name} ({at})" if name in found else name)
    return found


def _share(value: float) -> str:
    """Nothing where there is nothing; a hundredth is said as such."""
    return f"{value:.0%}" if value else ""


def _words(job: JobFacts, everything: Histogram, workers: dict[int, Histogram]) -> str:
    said = (
        f"{everything.contributions:,} contributions were {everything.mean:.3g} updates stale on average, at most "
        f"{everything.most:,}"
    )
    if len(workers) > 1:
        ranked: Sequence[int] = sorted(workers, key=lambda one: -(workers[one].mean or 0))
        late, early = ranked[0], ranked[-1]
        said += (
            f"; {job.party(late)}'s most, {workers[late].mean:.3g}, and {job.party(early)}'s least,"
            f" {workers[early].mean:.3g}"
        )
    return said
