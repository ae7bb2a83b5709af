"""Utilization: per link and direction, what went over it in each bin of time, the layers' shares stacked.

Bins are 10 ms wide, or 8, 64, ... times that when zoomed out. `other` is what the interface counted beyond
the layers. A percentage of the rate is shown only where the rate is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from backend.figures.base import TIME_BELOW_PX, TIME_MARGINS_PX, finish, format_ms, notice, share_time_axis
from backend.figures.bins import bin_window, neighbours, within
from backend.figures.boxes import SHADES, shade
from backend.figures.facts import JobFacts, LinkFacts, together
from backend.figures.link_bytes import LinkBytes, read_links
from backend.figures.markup import as_text
from backend.figures.request import FigureRequest
from backend.figures.rows import abbreviate
from backend.figures.scene import add_layer_scale
from backend.figures.source import Source
from backend.figures.theme import COLOURS, palette
from engine.plan.units_of_measure import format_rate
from engine.telemetry.definitions import link_bps, link_utilization
from engine.telemetry.events import BIN_NS, NO_LAYER, Direction
from engine.telemetry.recorder import TRANSPORT
from engine.telemetry.spread import layers_per_row

MAX_LINKS = 8
"""In one drawing; the page chooses which, the API has all of them."""
MAX_VALUES = 30_000
"""Of all shares together. Beyond, only what is visible is drawn, and then neighbouring layers as one, but at least
FEWEST_GROUPS in each panel."""
FEWEST_GROUPS = 4
MAX_AREAS = 160
"""Of all panels together; each takes a millisecond to build and to draw."""
PANEL_PX = 100
TITLE_PX, KEY_PX = 20, 30
"""Of a panel's title, and of what grey means above the first one."""
SHARED = ", with whatever else runs there"
BY_SIZE = ", split among layers by size"
BY_SIZE_SHORT = ", split by size"
"""Of collectives that PyTorch runs only the sum is counted."""
SOURCES = {
    "shaped": "shaped",
    "interface": "the interface's own",
    "declared": "declared by the job",
    "unknown": "from an unknown source",
}
"""Who says how fast a link is."""
OVERFULL = 1.005
"""A larger share of the rate is not written as 100 %."""
DIRECTIONS = {Direction.TX: "sends", Direction.RX: "receives"}


def utilization(source: Source, request: FigureRequest) -> go.Figure:
    """Every link that moved bytes, both directions."""
    job, revision = source.job, f"utilization:{source.job.id}"
    links = [link for link in source.links() if source.bin_range(link, 0)]
    shown = choose(links, request.links)
    about = {
        "links": [{"value": link.key, "label": name_of(job, link)} for link in links],
        "shown": [link.key for link in shown],
        "most_links": MAX_LINKS,
    }

    def nothing(text: str) -> go.Figure:
        figure = notice(request, revision=revision, text=text)
        return figure.update_layout(meta={**figure.layout.meta, **about})

    window = bin_window(source, links, request)
    if window is None:
        return nothing(job.no_bytes)
    window = within(window, len(job.layers) * len(shown) * len(Direction), MAX_VALUES)
    first, last = window.covered_bins
    panels = read_links(source, shown, window.level, (first, last))
    if not panels:
        return nothing("Nothing went over a link in this stretch of time")
    start_s = (first * window.bin_ns - window.origin_ns) / 1e9
    figure = draw(job, panels, start_s, window.bin_ns, window.visible_s, request)
    figure.update_xaxes(range=window.visible_s)
    figure.update_layout(
        uirevision=f"{revision}:{window.origin_ns}",
        meta={
            **figure.layout.meta,
            **window.meta,
            **about,
            "layers": list(job.titles),
            "panels": [panel_of(job, one, row) for row, one in enumerate(panels, start=1)],
        },
    )
    return figure


def choose(links: Sequence[LinkFacts], wanted: Sequence[str] | None) -> list[LinkFacts]:
    """The links that were asked for, in their order; without any of them the first MAX_LINKS."""
    chosen = [link for link in links if wanted is not None and link.key in wanted]
    return (chosen or list(links))[:MAX_LINKS]


def name_of(job: JobFacts, link: LinkFacts) -> str:
    """`worker 0, transport on host0`, or `lo on host0, of the whole machine`."""
    if link.shared:
        return f"{link.interface} on {link.host}, of the whole machine"
    return f"{job.party(link.party)}, {link.interface} on {link.host}"


def panel_of(job: JobFacts, one: LinkBytes, row: int) -> dict[str, Any]:
    """What the page has to know of a panel, to name what somebody points at: see `frontend/src/lib/stack.ts`."""
    x, y = _axes(row)
    return {
        "x": x,
        "y": y,
        "link": one.link.key,
        "direction": "send" if one.direction == Direction.TX else "receive",
        "title": f"{who_of(job, one.link)} {DIRECTIONS[one.direction]}",
        "rate_bps": one.link.rate_bps,
        "declared": one.link.rate_source == "declared",
        "by_size": one.link.by_size,
    }


def draw(
    job: JobFacts,
    panels: Sequence[LinkBytes],
    start_s: float,
    bin_ns: int,
    visible_s: Sequence[float],
    request: FigureRequest,
) -> go.Figure:
    """The figure of panels whose first bin starts at `start_s` on the axis, of which `visible_s` is in view."""
    colours = COLOURS[request.theme]
    columns = panels[0].other.shape[0]
    layers = max(len(p.layers) for p in panels)
    size = 1 if bin_ns == BIN_NS else layers_per_row(len(job.layers))
    groups = _groups(layers, columns, len(panels), size)
    low, high = ((end - start_s) * 1e9 / bin_ns for end in visible_s)
    shown = slice(max(math.floor(low + 1e-6), 0), max(math.ceil(high - 1e-6), 0))
    shades, areas = palette(request.theme, SHADES), []
    layout: dict[str, Any] = {"hovermode": "closest", "shapes": [], "annotations": []}
    layout["margin"] = {"b": TIME_BELOW_PX}
    for row, one in enumerate(panels, start=1):
        common: dict[str, Any] = {
            "x0": start_s,
            "dx": bin_ns / 1e9,
            "mode": "none",
            "stackgroup": f"s{row}",
            "showlegend": False,
            "line": {"shape": "hv"},
        }
        for members in groups:
            share = one.layers[members[0] : members[-1] + 1].sum(axis=0)
            if share.any():
                first, last = members[0], members[-1]
                colour = shades[shade(members[len(members) // 2], len(one.layers))]
                # For the page: what it lights up, and the name in CSV.
                span = {"layers": [first, last], "key": together(job.layer, first, last)}
                name = together(job.title, first, last)
                areas.append(_area(row, share, bin_ns, name=name, fillcolor=colour, meta=span, **common))
        if one.other.any():
            none = {"layers": [NO_LAYER, NO_LAYER]}
            areas.append(
                _area(row, one.other, bin_ns, name="other", fillcolor=colours.other, meta=none, **common)
            )
        _add_panel(layout, row, len(panels), _title(job, one, bin_ns, shown, request), request)
        scale, lines = _scale(row, one, bin_ns, colours.rate)
        layout[_key(_axes(row)[1])] |= scale
        layout["shapes"] += lines
    programs = "; of the machine's, other programs" if any(one.link.shared for one in panels) else ""
    if not request.narrow:
        other = f"other: beyond the layers (headers, control{programs})"
        layout["annotations"].append(_key_of_other(other, request))
        layout["margin"]["t"] = KEY_PX + TITLE_PX
    figure = go.Figure(areas, layout)  # at once: each change of a figure takes milliseconds
    add_layer_scale(figure, job, request)
    share_time_axis(figure, request)
    return finish(
        figure,
        request,
        revision=f"utilization:{job.id}",
        height=PANEL_PX * len(panels) + 130 + (0 if request.narrow else TITLE_PX),
        alt="; ".join(_words(job, one, bin_ns) for one in panels),
    )


def _key_of_other(text: str, request: FigureRequest) -> dict[str, Any]:
    """What grey means, in a line of its own: panels' titles may be as long as the drawing is wide. It begins on the
    left: on the right are the tools."""
    colours = COLOURS[request.theme]
    return {
        "text": f"<span style='color:{colours.other}'>■</span> {text}",
        "name": "key",
        "font": {"size": 12, "color": colours.text},
        "showarrow": False,
        **{"xref": "paper", "x": 0, "xanchor": "left"},
        **{"yref": "paper", "y": 1, "yanchor": "bottom", "yshift": TITLE_PX},
    }


def _add_panel(layout: dict[str, Any], row: int, rows: int, title: str, request: FigureRequest) -> None:
    """Put the axes and the title of panel `row`, of `rows` one below the other with one axis of time, into `layout`."""
    (x, y), bottom = _axes(row), _axes(rows)[0]
    gap = 0.42 / (rows + 3)
    height = (1 - gap * (rows - 1)) / rows
    top = max(1 - (row - 1) * (height + gap), height)
    layout[_key(y)] = {"anchor": x, "domain": [top - height, top]}
    layout[_key(x)] = {"anchor": y, "tickformat": "~s", "ticksuffix": "s", "showgrid": True}
    if row < rows:
        layout[_key(x)] |= {"matches": bottom, "showticklabels": False}
    layout["annotations"].append(
        {
            "text": title,
            # On a phone a title begins at the figure's edge: it is as long as there is room beside the ticks, too.
            "font": {"size": 11 if request.narrow else 12, "color": COLOURS[request.theme].text},
            "showarrow": False,
            **{"xref": "paper", "x": 0, "xanchor": "left"},
            "xshift": -TIME_MARGINS_PX[True][0] + 8 if request.narrow else 0,
            **{"yref": "paper", "y": top, "yanchor": "bottom"},
        }
    )


def _words(job: JobFacts, one: LinkBytes, bin_ns: int) -> str:
    bps = link_bps(one.total, bin_ns)
    who = f"{who_of(job, one.link)} {DIRECTIONS[one.direction]}"
    rate = rate_text(job, one.link)
    split = BY_SIZE if one.link.by_size else ""
    return f"{who} {format_rate(bps.mean())} on average, {format_rate(bps.max())} at most, {rate}{split}"


def _area(row: int, share: np.ndarray, bin_ns: int, *, name: str, **common: Any) -> dict[str, Any]:
    """A trace as plain data: Plotly copies every one that is an object already, and there may be hundreds."""
    x, y = _axes(row)
    return {
        "type": "scatter",
        "xaxis": x,
        "yaxis": y,
        # The last one ends the bin before it.
        "y": link_bps(np.append(share, 0), bin_ns).astype(np.float32),
        "name": name,
        "hovertemplate": f"<b>{as_text(name)}</b> %{{y:.3s}}bit/s at %{{x:.3f}} s<extra></extra>",
        **common,
    }


def _axes(row: int) -> tuple[str, str]:
    """Plotly's names of a panel's axes."""
    number = "" if row == 1 else str(row)
    return f"x{number}", f"y{number}"


def _key(axis: str) -> str:
    """What the layout calls it: `xaxis2` is `x2`."""
    return f"{axis[0]}axis{axis[1:]}"


def _scale(row: int, one: LinkBytes, bin_ns: int, colour: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A panel's axis, and the line of its rate: in percent where the rate is known, else in bit/s."""
    highest = float(link_bps(one.total, bin_ns).max())
    rate = one.link.rate_bps
    if rate is None:
        return {"tickformat": "~s", "ticksuffix": "bit/s", "nticks": 4, "rangemode": "tozero"}, []
    axis = {
        "tickmode": "array",
        "tickvals": np.array([0.0, rate / 2, rate]),
        "ticktext": ["0", "50 %", "100 %"],
        "range": [0, max(1.15 * rate, 1.02 * highest)],
    }
    x, y = _axes(row)
    dash = {"color": colour, "width": 1.2, "dash": "dash"}
    line = {
        "type": "line",
        "xref": f"{x} domain",
        "x0": 0,
        "x1": 1,
        "yref": y,
        "y0": rate,
        "y1": rate,
        "line": dash,
    }
    return axis, [line]


def _title(job: JobFacts, one: LinkBytes, bin_ns: int, shown: slice, request: FigureRequest) -> str:
    """Who, which direction, which interface, how layers are told apart where that is derived, how fast it may go, and
    how much more the fullest of the bins holds that are `shown`: wider ones hold less of a burst."""
    link = one.link
    name = who_of(job, link)
    title = f"<b>{abbreviate(name) if request.narrow and not link.shared else name}</b> {DIRECTIONS[one.direction]}"
    if not request.narrow:
        title += f" ({link.interface} on {link.host}{SHARED if link.shared else ''})"
    if link.by_size:
        title += BY_SIZE_SHORT if request.narrow else BY_SIZE
    title += f": {rate_text(job, link, short=request.narrow)}"
    shares = link_utilization(one.total[shown], bin_ns, link.rate)
    most = 0.0 if shares is None else float(shares.max(initial=0))
    if most > OVERFULL:
        wide = format_ms(bin_ns)
        if request.narrow:
            title += f"; peak {wide}: {most:.0%}"
        else:
            title += f"; fullest bin shown, {wide} wide: {most:.0%}, {overfull(link)}"
    return title


def overfull(link: LinkFacts) -> str:
    """Why a bin may hold more than the rate allows. A rate that was only declared holds nothing back."""
    return "a burst, or the link is faster than declared" if link.rate_source == "declared" else "a burst"


def who_of(job: JobFacts, link: LinkFacts) -> str:
    """`worker 0`, or `machine` where all that it sends is counted."""
    return "machine" if link.shared else job.party(link.party)


def rate_text(job: JobFacts, link: LinkFacts, *, short: bool = False) -> str:
    """`limit 300 Mbit/s, 1/15 of the job's, software-limited`, or `300 Mbit/s (1/15), software-limited`."""
    if link.rate_bps is None:
        return "rate not known"
    paced = job.rate is not None and job.hosts is None and link.interface == TRANSPORT
    share = f"1/{job.scale:g}" if job.scale != 1 else ""
    rate = format_rate(link.rate_bps)
    said = "software-limited" if paced and link.rate_source == "shaped" else SOURCES[link.rate_source]
    if short:
        limit = f"{rate} ({share})" if share else rate
    else:
        limit = f"limit {rate}" if link.rate_source == "shaped" else rate
        limit = f"{limit}, {share} of the job's" if share else limit
    return f"{limit}, {said}"


def _groups(layers: int, columns: int, panels: int, size: int) -> list[range]:
    """Neighbouring layers that are drawn as one, so that values stay within MAX_VALUES, as far as FEWEST_GROUPS allows,
    and areas within MAX_AREAS; `size` of them share a row of the rollup."""
    return neighbours(
        layers, max(FEWEST_GROUPS, min(MAX_VALUES // max(columns * panels, 1), MAX_AREAS // panels)), size
    )
