"""Race: the same step of several jobs, one above the other on one time axis that starts with the step's
forward.

Each job's rows are those of its timeline. Where a worker starts its next forward its step has ended: the line
there is its finish, and what comes after it is veiled.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from sqlalchemy.orm import Session

from backend.figures import limits as measured
from backend.figures.base import TIME_MARGINS_PX, finish, format_ms, notice, say_labels
from backend.figures.blame import blocker
from backend.figures.headline import Contender, cause, headline
from backend.figures.markup import as_text
from backend.figures.request import FigureRequest
from backend.figures.rows import ROW_HEIGHT, Row, height_of, rows_of
from backend.figures.scene import Part, View, add_key, paint, rules, scene_height, set_axes
from backend.figures.several import labels_of, names_of
from backend.figures.source import Source
from backend.figures.speed import Speed, conditions, measure
from backend.figures.theme import COLOURS
from backend.figures.waits import light_up, longest, look_up
from backend.figures.why import Why
from backend.figures.window import next_start, step_span
from engine.telemetry import limits
from engine.telemetry.comparison import same_step
from engine.telemetry.definitions import WARM_UP_STEPS

TITLE_ROWS = 1.0
JOB_GAP = 0.5
BLAME_STEPS = 5
"""What was on the wire during the waits is looked up in so many of the latest steps with every event."""
BYTES_STEPS = 20
"""What a job sends in a step is the mean over so many of the latest ones."""
LABELS_PX, NARROW_LABELS_PX, DETAIL_PX, TIME_PX = 150, 100, 360, 100
"""Roughly the widths of the rows' labels, of a title's medians, and of a finish's time."""
NAME_CHARACTER_PX = 8.6


@dataclass(frozen=True, kw_only=True)
class Race:
    """A race's answer."""

    headline: str
    figure: go.Figure
    step: int | None
    """The step that is shown; None where the jobs have none in common yet."""
    steps: dict[str, int | None]
    """min and max of the steps that can be shown, and the `previous` and `next` one from here."""


@dataclass(frozen=True, kw_only=True)
class RaceRow:
    """One job's step in the race."""

    part: Part
    top: float
    """Upper edge of its title, in rows."""
    finishes: dict[int, int]
    """End of the step by worker: the start of its next forward, ns since `part.origin_ns`."""
    speed: Speed

    @property
    def finish_ns(self) -> int:
        """The slowest worker's."""
        return max(self.finishes.values())


def race(session: Session, job_ids: Sequence[str], request: FigureRequest) -> Race:
    """The race of these jobs. `request.step` None: the latest step of which all jobs kept every event; one
    that
    some job did not keep is replaced by the nearest that all did. Raises LookupError for a job that does
    not exist.
    """
    sources = [Source(session, job_id) for job_id in job_ids]
    jobs = [source.job for source in sources]
    names, labels = names_of(jobs), labels_of(jobs)
    speeds = [measure(source) for source in sources]
    common = _common_steps(sources)
    contenders = [
        _contender(source, name, speed) for source, name, speed in zip(sources, names, speeds, strict=True)
    ]
    text = headline(contenders, sources[0].job.title)
    revision = "race:" + ",".join(job_ids)
    if not len(common):
        reason = _why_nothing(sources, names)
        empty: dict[str, int | None] = {"min": None, "max": None, "previous": None, "next": None}
        nothing = notice(request, revision=revision, text=reason)
        say_labels(nothing, request, labels)
        return Race(headline=text, figure=nothing, step=None, steps=empty)
    step = _choose(common, request.step)
    why = None
    if request.wait is not None and request.why_job is not None and request.why_job in job_ids:
        index = list(job_ids).index(request.why_job)
        explained = look_up(sources[index], request.wait)
        why = None if explained is None else (index, explained)
    contest = len(contenders) > 1 and same_step([one.run for one in contenders])
    figure = draw(_lanes(sources, speeds, step, request), names, request, why, contest=contest)
    figure.update_layout(
        uirevision=f"{revision}:{step}", meta={**figure.layout.meta, "headline": text, "step": step}
    )
    say_labels(figure, request, labels)
    return Race(headline=text, figure=figure, step=step, steps=_neighbours(common, step))


def cause_of(session: Session, fast: str, slow: str) -> str | None:
    """Why a step of the first job is faster than one of the second; None where the data name no cause. Raises
    LookupError as `race` does."""
    first, second = Source(session, fast), Source(session, slow)
    return cause(
        _contender(first, first.job.strategy, measure(first)),
        _contender(second, second.job.strategy, measure(second)),
        first.job.title,
    )


def draw(
    lanes: Sequence[RaceRow],
    names: Sequence[str],
    request: FigureRequest,
    why: tuple[int, Why] | None = None,
    *,
    contest: bool,
) -> go.Figure:
    """The figure of several jobs' lanes, in their order from top to bottom; `why` is lit up: the lane's
    number, and one of its waits. Who finishes first is said in a `contest` only: where a step is the same work for
    all."""
    view = _view(lanes, request)
    parts = [lane.part for lane in lanes]
    traces, level, count = paint(parts, view, request)
    figure = go.Figure(traces)
    if why is not None:
        lit = parts[why[0]]
        light_up(figure, why[1], lit.job, lit.rows, (why[0], lit.origin_ns), request)
    rows = [row for part in parts for row in part.rows]
    bottom = height_of(rows)
    first = min(lane.finish_ns for lane in lanes)
    for lane, name in zip(lanes, names, strict=True):
        _veil(figure, lane, view, request)
        _finish_lines(figure, lane, request)
        _captions(figure, lane, name, view, request, winner=contest and lane.finish_ns == first)
    set_axes(figure, rows, view, bottom)
    left, right = TIME_MARGINS_PX[request.narrow]
    figure.update_layout(margin={"l": left, "r": right})
    same = len({part.job.titles for part in parts}) == 1
    add_key(figure, parts[0].job if same else None, request, [part.spans for part in parts])
    meta = {
        "level": level,
        "spans": count,
        "jobs": [part.job.id for part in parts],
        "origins_ns": [part.origin_ns for part in parts],
        "finishes_ns": [lane.finish_ns for lane in lanes],
        "from_ns": round(view.from_s * 1e9),
        "to_ns": round(view.to_s * 1e9),
        "covered_ns": [round(edge * 1e9) for edge in view.covered],
        "waits": _longest(lanes, view),
    }
    took = [f"{name} {format_ms(lane.finish_ns)}" for lane, name in zip(lanes, names, strict=True)]
    return finish(
        figure,
        request,
        revision="race",
        height=scene_height(rows, bottom=bottom),
        alt=f"The step shown took {', '.join(took)}",
        meta=meta,
    )


def _lanes(
    sources: Sequence[Source], speeds: Sequence[Speed], step: int, request: FigureRequest
) -> list[RaceRow]:
    steps = [source.step_rows(step, step + 1) for source in sources]
    spans = [step_span(rows, step) for rows in steps]
    longest = max(span[1] - span[0] for span in spans if span)
    seen = (request.from_ns, request.to_ns) if request.from_ns is not None else (0, longest)
    width = (seen[1] or 0) - (seen[0] or 0)
    lanes, top = [], 0.0
    for source, rows, span, speed in zip(sources, steps, spans, speeds, strict=True):
        assert span is not None  # a common detailed step has step rows everywhere
        origin = span[0]
        events = source.spans(origin + (seen[0] or 0) - width, origin + (seen[1] or 0) + width)
        # The rows are those of the whole step, also where nothing of it is in view.
        known = events if request.from_ns is None else np.concatenate([events, source.spans(*span)])
        drawn = rows_of(
            known["party"], known["track"], source.job.parties, top=top + TITLE_ROWS, short=request.narrow
        )
        own = rows[rows["step"] == step]
        finishes = {
            int(row["party"]): (next_start(rows, int(row["party"]), step) or int(row["end"])) - origin
            for row in own
        }
        part = Part(job=source.job, spans=events, rows=drawn, origin_ns=origin)
        lanes.append(RaceRow(part=part, top=top, finishes=finishes, speed=speed))
        top = height_of(drawn) + JOB_GAP
    return lanes


def _longest(lanes: Sequence[RaceRow], view: View) -> list[dict[str, int | str]]:
    """The longest waits in view of each job, which is given by its number; those after a worker's finish are no part
    of the race."""
    low, high = round(view.from_s * 1e9), round(view.to_s * 1e9)
    return [
        {"job": number, **wait}
        for number, lane in enumerate(lanes)
        for wait in longest(
            _before_finish(lane), lane.part.origin_ns + low, lane.part.origin_ns + high, lane.part.job
        )[:3]
    ]


def _before_finish(lane: RaceRow) -> np.ndarray:
    """Spans that begin before the party's finish; of one that has no steps of its own (a device), before the last."""
    spans = lane.part.spans
    finish_ns = np.full(len(spans), lane.finish_ns)
    for party, own_ns in lane.finishes.items():
        finish_ns[spans["party"] == party] = own_ns
    return spans[spans["start"] < lane.part.origin_ns + finish_ns]


def _view(lanes: Sequence[RaceRow], request: FigureRequest) -> View:
    if request.from_ns is not None and request.to_ns is not None:
        return View(from_s=request.from_ns / 1e9, to_s=request.to_ns / 1e9)
    longest = max(lane.finish_ns for lane in lanes) / 1e9
    return View(from_s=-0.015 * longest, to_s=longest * (1.14 if request.narrow else 1.08))


def _veil(figure: go.Figure, lane: RaceRow, view: View, request: FigureRequest) -> None:
    """Pale what happens after each worker's finish: the next step is not part of the race."""
    corners = []
    for party, finish_ns in lane.finishes.items():
        edges = _edges(lane.part.rows, party)
        x0 = finish_ns / 1e9
        x1 = max(view.covered[1], x0)
        corners += [(x0, edges[0]), (x1, edges[0]), (x1, edges[1]), (x0, edges[1]), (np.nan, np.nan)]
    shape = np.array(corners)
    figure.add_trace(
        go.Scatter(
            x=shape[:, 0],
            y=shape[:, 1],
            mode="none",
            fill="toself",
            fillcolor=COLOURS[request.theme].veil,
            hoverinfo="skip",
            showlegend=False,
            name="next step",
        )
    )


def _finish_lines(figure: go.Figure, lane: RaceRow, request: FigureRequest) -> None:
    """Each worker's finish."""
    colours = COLOURS[request.theme]
    edges = np.array([_edges(lane.part.rows, party) for party in lane.finishes])
    x = np.array(list(lane.finishes.values())) / 1e9
    figure.add_trace(rules(x, edges[:, 0], edges[:, 1], colours.text, width=2, dash="solid"))


def _captions(
    figure: go.Figure, lane: RaceRow, name: str, view: View, request: FigureRequest, *, winner: bool
) -> None:
    """The job's name, with its medians where there is room, and the slowest worker's time above its finish; where the
    two would overlap, the time follows the name."""
    speed, colours = lane.speed, COLOURS[request.theme]
    room = request.width - (NARROW_LABELS_PX if request.narrow else LABELS_PX)
    at = (lane.finish_ns / 1e9 - view.from_s) / (view.to_s - view.from_s) * room
    width = len(name) * NAME_CHARACTER_PX
    time = f"<b>{format_ms(lane.finish_ns)}</b>{' first' if winner else ''}"
    colour = colours.first if winner else colours.text
    if width + TIME_PX / 2 > min(at, room):
        most = max(int((room - TIME_PX) / NAME_CHARACTER_PX), 1)
        said = name if len(name) <= most else f"{name[: most - 1]}…"
        text = f"<b>{as_text(said)}</b>  <span style='color:{colour};font-size:12px'>{time}</span>"
    else:
        text = f"<b>{as_text(name)}</b>"
        if speed.iteration_ns is not None and width + DETAIL_PX + TIME_PX / 2 < min(at, room):
            exposed = (
                f", {format_ms(speed.exposed_ns)} of it exposed wait" if speed.exposed_ns is not None else ""
            )
            median = f"median step {format_ms(speed.iteration_ns)}{exposed}"
            text += f"  <span style='color:{colours.muted}'>{median}</span>"
        figure.add_annotation(
            x=lane.finish_ns / 1e9,
            y=lane.top + TITLE_ROWS,
            xref="x",
            yref="y",
            xanchor="center",
            yanchor="bottom",
            text=time,
            font={"size": 12, "color": colour},
        )
    figure.add_annotation(
        xref="x domain",
        x=0,
        y=lane.top + TITLE_ROWS,
        yref="y",
        xanchor="left",
        yanchor="bottom",
        text=text,
        font={"size": 14},
    )


def _edges(rows: Sequence[Row], party: int) -> tuple[float, float]:
    """Upper and lower edge of a party's rows."""
    own = [row.y for row in rows if row.party == party]
    return (min(own) - 0.1, max(own) + ROW_HEIGHT + 0.1) if own else (rows[0].y, rows[-1].y + ROW_HEIGHT)


def _contender(source: Source, name: str, speed: Speed) -> Contender:
    def blocked_by(layers: Collection[int]) -> int | None:
        detailed = source.detailed_steps()
        warm = detailed[detailed >= WARM_UP_STEPS]
        chosen = (warm if len(warm) else detailed)[-BLAME_STEPS:]
        if not len(chosen):
            return None
        rows = source.step_rows(int(chosen[0]), int(chosen[-1]))
        rows = rows[np.isin(rows["step"], chosen)]
        spans = source.spans(int(rows["start"].min()), int(rows["end"].max()))
        return blocker(spans, layers)

    def link_limits() -> bool:
        found = limits.limit(measured.figures(source, speed, None))
        return found is not None and found.kind == "port"

    sent = source.sent_bytes(max(speed.first, speed.last - BYTES_STEPS), speed.last - 1)
    return Contender(
        run=conditions(source, speed, name),
        speed=speed,
        exposed_ns=source.exposed_by_layer(speed.first, speed.last),
        blocker=blocked_by,
        units=lambda: source.job.units,
        sent_bytes=None if sent is None else sent * source.job.scale,
        link_limits=link_limits,
    )


def _why_nothing(sources: Sequence[Source], names: Sequence[str]) -> str:
    """Of jobs that share no step: which are waited for, or ended without one."""
    empty = [
        (source.job, name) for source, name in zip(sources, names, strict=True) if source.last_step() < 0
    ]
    if waiting := [job for job, _ in empty if not job.over]:
        return waiting[0].without("events", "first step", "ended")
    if empty:
        ended = " and ".join(name for _, name in empty)
        return f"No events of {ended}: {'it' if len(empty) == 1 else 'they'} ended before the first step had ended"
    return f"These jobs share no detailed step{'' if all(s.job.over for s in sources) else ' yet'}"


def _common_steps(sources: Sequence[Source]) -> np.ndarray:
    """Steps of which all jobs kept every event, and whose end is known."""
    common: np.ndarray | None = None
    for source in sources:
        steps = source.detailed_steps()
        steps = steps[steps <= source.last_step()]
        common = steps if common is None else np.intersect1d(common, steps)
    return np.empty(0, np.int32) if common is None else common


def _choose(common: np.ndarray, step: int | None) -> int:
    if step is None:  # the last one of a job has no next forward to measure it by
        return int(common[-2] if len(common) > 1 else common[-1])
    return int(common[np.abs(common - step).argmin()])


def _neighbours(common: np.ndarray, step: int) -> dict[str, int | None]:
    before, after = common[common < step], common[common > step]
    return {
        "min": int(common[0]),
        "max": int(common[-1]),
        "previous": int(before[-1]) if len(before) else None,
        "next": int(after[0]) if len(after) else None,
    }
