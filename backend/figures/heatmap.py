"""Heat map: layers down, time across. Above, how much of each step workers waited for the layer; below, the
layer's bytes over time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from backend.figures.base import finish, notice, share_time_axis
from backend.figures.bins import bin_window, neighbours, within
from backend.figures.facts import JobFacts, bucket, together
from backend.figures.maps import Map
from backend.figures.markup import as_text
from backend.figures.request import FigureRequest
from backend.figures.rolled import aligned, group_size
from backend.figures.source import Source
from backend.figures.theme import COLOURS
from engine.telemetry.definitions import link_bps
from engine.telemetry.events import BIN_NS, Direction
from engine.telemetry.spread import layers_per_row

MAX_LABELS = 14
ROW_PX = 17
PIXELS_PER_STEP = 3
MAX_CELLS = 120_000
"""Layers times groups of steps that are read."""
MAX_DRAWN = 40_000
"""Cells of one of the two maps."""
GAP = 0.06
"""Between two rows, of a row's height."""
NO_LAYER = "no layer"
"""The row of waits that belong to none, below all others."""
FEWEST_ROWS = 48
"""Neighbouring layers of deep networks share one: they are smaller than a pixel."""
TIMES_PX = 34
"""Below the last map: the times alone."""
TITLE_PX = 38
"""Between the two maps: the second one's title, and its colours."""
MAX_ROWS_PX = 300
"""Of one of the two maps: the rows of deeper networks become thinner."""


def heatmap(source: Source, request: FigureRequest) -> go.Figure:
    """Exposed wait and bytes by layer over time."""
    job, revision = source.job, f"heatmap:{source.job.id}"
    window = bin_window(source, source.links(), request)
    if window is None:
        return notice(request, revision=revision, text=job.no_bytes)
    window = within(window, len(job.layers), MAX_DRAWN)
    first, last = window.covered_bins
    steps = source.steps_between(first * window.bin_ns, (last + 1) * window.bin_ns)
    count = steps[1] - steps[0] + 1
    size = group_size(count, max(MAX_CELLS // max(len(job.layers), 1), 1))
    steps = aligned(*steps, size) if count else steps
    rows = source.step_rows(*steps)
    waits = source.waits(*steps, size)
    layers = max(len(job.layers), int(waits["layer"].max(initial=-1)) + 1)
    stride = max(1, count * PIXELS_PER_STEP // (3 * request.width))
    stride = -(-stride // size) * size
    waits["layer"][waits["layer"] < 0] = (
        layers  # the last row: what belongs to no layer, as all of ddp's waits
    )
    edges, shares = wait_shares(rows, waits, layers + 1, stride)
    moved = np.zeros((layers, last - first + 1), np.int64)
    for link in source.links():
        sent = source.bins(link, window.level, first, last, Direction.TX)
        sent = sent[sent["layer"] >= 0]
        np.add.at(moved, (sent["layer"], sent["bin"] - first), sent["bytes"])
    start_s = (first * window.bin_ns - window.origin_ns) / 1e9
    figure = draw(
        job,
        ((edges - window.origin_ns) / 1e9, shares),
        (start_s, window.bin_ns, moved),
        request,
    )
    figure.update_xaxes(range=window.visible_s)
    figure.update_layout(
        uirevision=f"{revision}:{window.origin_ns}", meta={**figure.layout.meta, **window.meta}
    )
    return figure


def wait_shares(
    rows: np.ndarray, waits: np.ndarray, layers: int, stride: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """`(edges (n+1) ns, shares (layers, n))` of STEP_ROW and WAIT_ROW: the share (0 to 1) of every group of `stride`
    steps that workers waited for each layer, of the time that they had: each its own, from its start of the group to
    its start of the next one. A worker that waited after its own step had ended, as at a job's end, has that time
    besides. A group is drawn from its first worker's start on."""
    group = rows["step"] // stride
    groups = np.unique(group)
    if not len(groups):
        return np.zeros(1), np.zeros((layers, 0))
    starts = np.array([rows["start"][group == one].min() for one in groups], np.float64)
    edges = np.append(starts, float(rows["end"].max()))
    waited = np.zeros((layers, len(groups)))
    own = waits[(waits["layer"] >= 0) & np.isin(waits["step"] // stride, groups)]
    np.add.at(waited, (own["layer"], np.searchsorted(groups, own["step"] // stride)), own["exposed"])
    everything = np.zeros(len(groups))
    of_all = waits[np.isin(waits["step"] // stride, groups)]
    np.add.at(everything, np.searchsorted(groups, of_all["step"] // stride), of_all["exposed"])
    return edges, waited / np.maximum(_own_time(rows, group, groups), np.maximum(everything, 1))


def _own_time(rows: np.ndarray, group: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """The time in ns that all workers had in each of the (n) groups, by the clock of each."""
    time = np.zeros(len(groups))
    for party in np.unique(rows["party"]):
        own = rows["party"] == party
        has, first = np.unique(np.searchsorted(groups, group[own]), return_index=True)
        starts = rows["start"][own][first].astype(np.float64)
        time[has] += np.diff(np.append(starts, float(rows["end"][own].max())))
    return time


def draw(
    job: JobFacts,
    waits: tuple[np.ndarray, np.ndarray],
    moved: tuple[float, int, np.ndarray],
    request: FigureRequest,
) -> go.Figure:
    """The figure of `waits` (edges in s, shares; those behind the layers' belong to no layer) and `moved` (first bin's
    start in s, bin in ns, bytes)."""
    colours = COLOURS[request.theme]
    start_s, bin_ns, sent = moved
    size = 1 if bin_ns == BIN_NS else layers_per_row(len(job.layers))
    rows = rows_of_layers(len(sent), max(sent.shape[1], waits[1].shape[1]), size)
    named, other = np.split(waits[1], [len(sent)])
    other = other[other.any(axis=1)]  # belongs to no layer: one row, where anything was waited for
    waits, sent = (waits[0], np.concatenate([merged(named, rows), other])), merged(sent, rows)
    titles = ["<b>exposed wait</b>, share of the step", "<b>bytes sent</b> by all parties, per second"]
    map_px = max(90, min(ROW_PX * len(rows), MAX_ROWS_PX))
    spacing = TITLE_PX / (2 * map_px + TITLE_PX)
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=spacing, subplot_titles=titles)
    for note in figure.layout.annotations:
        note.update(x=0, xanchor="left", font={"size": 12, "color": colours.text})
    plain = [together(job.title, row[0], row[-1]) for row in rows]
    waited = [_waited(job, row) for row in rows] + [NO_LAYER] * len(other)
    names, waited_names = (np.array([as_text(name) for name in said]) for said in (plain, waited))
    keys = [together(job.layer, row[0], row[-1]) for row in rows]
    meta = {  # for the page: which rows it frames, and their names in CSV
        "rows": [*(row.start for row in rows), rows[-1].stop if rows else 0],
        "keys": keys,
    }
    rate = link_bps(sent, bin_ns).astype(np.float32)
    bins = start_s + np.arange(rate.shape[1] + 1) * bin_ns / 1e9
    maps = {
        2: (
            Map(rate, bins, max(float(rate.max(initial=0)), 1), (colours.idle, colours.compute), gap=GAP),
            "<b>%{y}</b> %{z:.3s}bit/s at %{x:.3f} s<extra></extra>",
            _bar(figure.layout.yaxis2.domain[1], "~s", "bit/s"),
        )
    }
    if waits[1].size:
        shares = waits[1].astype(np.float32)
        maps[1] = (
            Map(shares, waits[0], max(float(shares.max()), 0.01), (colours.idle, colours.wait), gap=GAP),
            "<b>%{y}</b> %{z:.1%} of the step<extra></extra>",
            _bar(figure.layout.yaxis.domain[1], ".1~%", ""),
        )
    for panel, (grid, template, bar) in sorted(maps.items()):
        figure.add_trace(
            grid.pointed(
                y=waited_names if panel == 1 else names,
                hovertemplate=template,
                colorbar=bar,
                showscale=not request.narrow,
                meta={**meta, "keys": keys + waited[len(rows) :]} if panel == 1 else meta,
            ),
            row=panel,
            col=1,
        )
        # Boxes end between two names, where an axis of names has no place: over it lies one of row numbers.
        over = f"y{panel + 2}"
        figure.add_traces(grid.cells(xaxis=f"x{panel}" if panel > 1 else "x", yaxis=over))
        figure.update_layout(
            {
                f"yaxis{panel + 2}": {
                    "overlaying": f"y{panel}" if panel > 1 else "y",
                    "range": [(len(waited_names) if panel == 1 else len(names)) - 0.5, -0.5],
                    "visible": False,
                    "fixedrange": True,
                }
            }
        )
    chosen = np.unique(np.linspace(0, len(names) - 1, min(MAX_LABELS, len(names))).round().astype(int))
    figure.update_yaxes(
        type="category",
        tickmode="array",
        autorange="reversed",
        showgrid=False,
        fixedrange=True,
        ticks="",
        selector={"overlaying": None},
    )
    room = 10 if request.narrow else 17
    for axis, said, label in (
        (figure.layout.yaxis, waited_names, _waited_label),
        (figure.layout.yaxis2, names, _label),
    ):
        texts = [label(job, rows[i], room) for i in chosen]
        behind = said[len(rows) :]  # the row without a layer has its name always
        axis.update(tickvals=[*said[chosen], *behind], ticktext=[*texts, *behind])
    figure.update_xaxes(tickformat="~s", ticksuffix="s", showgrid=False)
    figure.update_layout(hovermode="closest", margin={"b": TIMES_PX})
    share_time_axis(figure, request)
    alt = _words((waited, plain), waits[1], sent)
    return finish(figure, request, revision=f"heatmap:{job.id}", height=2 * map_px + TITLE_PX + 84, alt=alt)


def rows_of_layers(layers: int, columns: int, size: int = 1) -> list[range]:
    """The layers of each row, so that a map has at most MAX_DRAWN cells, or FEWEST_ROWS rows; `size` of them share a
    row of the rollup."""
    return neighbours(layers, max(MAX_DRAWN // max(columns, 1), FEWEST_ROWS), size)


def merged(values: np.ndarray, rows: Sequence[range]) -> np.ndarray:
    """(layers, n) as (rows, n): the sums of each row's layers."""
    return np.add.reduceat(values, [row.start for row in rows], axis=0) if rows and values.size else values


def _label(job: JobFacts, row: range, room: int) -> str:
    """The row's first layer, and how many follow."""
    return as_text(job.fitting(row.start, room)) + (f" +{len(row) - 1}" if len(row) > 1 else "")


def _waited(job: JobFacts, row: range) -> str:
    """What a row's waits are for: its layers, and the bucket, or buckets, in which they come. A wait for a bucket is
    where forward had got to, most often at the bucket's first layer, and its other layers have none."""
    name = together(job.title, row[0], row[-1])
    buckets = {members for layer in row if len(members := job.units.waited_for(layer)) > 1}
    if not buckets:
        return name
    if len(buckets) == 1:
        return f"{name}, in {bucket(job.title, *buckets)}"
    first, last = min(members[0] for members in buckets), max(members[-1] for members in buckets)
    return f"{name}, in buckets of {together(job.title, first, last)}"


def _waited_label(job: JobFacts, row: range, room: int) -> str:
    """The same where there is little room: a bucket's first layer, and how many come with it."""
    members = job.units.waited_for(row.start)
    if len(row) > 1 or len(members) == 1 or members[0] != row.start:
        return _label(job, row, room)
    more = f" + {len(members) - 1}"
    return as_text(job.fitting(row.start, room - len(more))) + more


def _words(names: tuple[Sequence[str], Sequence[str]], waits: np.ndarray, sent: np.ndarray) -> str:
    """The layers that are waited for most and that send most; `names`: of the two maps' rows."""
    waited, sending = names
    said = []
    if waits.size and waits.any():
        share = waits.mean(axis=1)
        most = int(share.argmax())
        joint = "," if most < len(sending) and waited[most] != sending[most] else ""
        what = f"layer {waited[most]}{joint}" if most < len(sending) else "what belongs to no layer"
        said.append(f"{what} is waited for most, {share[most]:.1%} of the step on average")
    if sent.any():
        size = sent.sum(axis=1)
        most = int(size.argmax())
        said.append(f"layer {sending[most]} sends most, {size[most] / size.sum():.0%} of the layers' bytes")
    return "; ".join(said) or "nothing is waited for, nothing is sent"


def _bar(top: float, tickformat: str, suffix: str) -> dict[str, object]:
    """A map's colours, beside its title: to the right of the map they would take of the time axis's length."""
    return {
        "orientation": "h",
        "len": 0.28,
        "thickness": 7,
        "x": 1,
        "xanchor": "right",
        "xpad": 0,
        "y": top,
        "yanchor": "bottom",
        "ypad": 5,
        "outlinewidth": 0,
        "tickformat": tickformat,
        "ticksuffix": suffix,
        "nticks": 4,
        "tickfont": {"size": 10},
        "ticklabelposition": "outside top",
        "ticks": "",
    }
