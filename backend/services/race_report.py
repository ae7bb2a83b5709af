"""A race's report: one HTML file that needs nothing but itself, its conclusion first.

Whatever a person named (races, members, conditions, reasons, specifications) is text, never markup, and drives no
terminal: `escape` stands at every place where a value enters the page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from backend.figures.race_throughput import CUT
from backend.race_rows import HEAD, Row, rows_of
from backend.rounding import SPEED_WORDS
from backend.schemas.best import RaceBest
from backend.schemas.races import RaceView, Ranking, Suggestion
from backend.services import best_report
from backend.services.markup import escape
from backend.services.race_drawing import bars, is_cut, lines_of, over_rates
from backend.services.verdict import BESIDE
from engine.plan.documents import dump_yaml
from engine.plan.serde import only_set
from engine.plan.units_of_measure import format_bytes

STYLE = """
:root { color-scheme: light; --text: #1c2733; --muted: #5c6875; --line: #e4e9ef; }
body { margin: 0 auto; padding: 32px 20px 60px; max-width: 920px; color: var(--text); background: #fff;
  font: 15px/1.5 Inter, system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 34px 0 6px; }
h1, h2, p, td, th, li, pre { overflow-wrap: anywhere; }
.muted { color: var(--muted); font-size: 13px; }
.conclusion { border-left: 4px solid #31688e; padding: 4px 14px; margin: 18px 0; font-size: 17px; }
.conclusion p { margin: 6px 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 14px; }
th { text-align: left; color: var(--muted); font-weight: 600; font-size: 12px; white-space: nowrap; }
th, td { padding: 5px 8px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n, th.n { text-align: right; padding-right: 0; padding-left: 10px; }
td.n { white-space: nowrap; } th.n { white-space: normal; overflow-wrap: normal; vertical-align: bottom; }
.wide { overflow-x: auto; } .wide table { min-width: 640px; } .wide td:nth-child(2) { min-width: 9em; }
svg { width: 100%; height: auto; margin: 10px 0; } svg text { font-size: 12.5px; fill: var(--text); }
svg .grid { stroke: var(--line); } svg .step { fill: #31688e; } svg .wait { fill: #e0142f; }
pre { background: #f6f8fa; padding: 12px; border-radius: 8px; font-size: 12.5px; white-space: pre-wrap; }
@media print { body { max-width: none; padding: 0; } h2 { break-after: avoid; } tr, svg { break-inside: avoid; } }
"""


INTERVALS = (
    "An upright line is the 95 % confidence interval of one strategy by itself. Rankings compare within rounds: two "
    "strategies may differ for certain although their lines overlap."
)


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Where the figures come from."""

    version: str
    """Trainyard's."""
    commit: str
    cpu: str
    cores: int
    memory_bytes: int
    kernel: str
    python: str
    torch: str
    devices: tuple[str, ...]
    """What its jobs were given, as `4 x NVIDIA H200`, each kind once."""
    written: datetime


def html(race: RaceView, origin: Provenance, best: RaceBest | None = None) -> str:
    """The whole page. `best`: which plan learns best, where jobs were evaluated."""
    body = [
        f"<h1>{escape(race.name)}</h1>",
        f'<p class="muted">{escape(_subject(race))}</p>',
        _conclusion(race),
        *_charts(race.rankings),
        *(_ranking(ranking, _longest(race.rankings)) for ranking in race.rankings),
        *(best_report.parts(best) if best is not None else ()),
        _next(race.next),
        _method(race),
        _origin(origin),
        "<h2>Specification</h2>",
        '<p class="muted">What was set; everything else has its default. <code>trainyard race</code> takes the '
        "part below <code>job</code> as its file.</p>",
        f"<pre>{escape(dump_yaml(only_set(race.spec)))}</pre>",
        _jobs(race.rankings),
    ]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        # Nothing is fetched and nothing runs, whatever a name may hold.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(race.name)}</title><style>{STYLE}</style>"
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{"".join(body)}</body></html>\n'


def _subject(race: RaceView) -> str:
    what = f"{race.model} under {', '.join(race.members)}"
    jobs = f"{race.state}, {race.jobs_ended} of {race.jobs} jobs ended, begun {_moment(race.created_at)}"
    return "; ".join(filter(None, (what, jobs, race.rehearsed, race.slowed)))


def _conclusion(race: RaceView) -> str:
    said = [
        f"<b>{escape(ranking.condition)}:</b> {escape(ranking.sentence)}"
        if ranking.condition
        else escape(ranking.sentence)
        for ranking in race.rankings
    ]
    said += [escape(text) for text in (*race.notes, *race.crossings)]
    if race.state in ("running", "cancelled"):
        said.append(f"<i>This race is {escape(race.state)}: the figures are those until now.</i>")
    return f'<div class="conclusion">{"".join(f"<p>{text}</p>" for text in said)}</div>'


def _charts(rankings: Sequence[Ranking]) -> list[str]:
    """Throughput over rates, for each number of workers and batch."""
    same: dict[tuple[int | None, int | None], list[Ranking]] = defaultdict(list)
    for ranking in rankings:
        same[ranking.workers, ranking.batch].append(ranking)
    found = []
    for (workers, batch), some in same.items():
        lines = lines_of(some)
        if drawn := over_rates(lines):
            many = f"{workers} worker{'s' * (workers > 1)}" if workers else ""
            parts = [many, f"batch {batch}" if batch else ""]
            title = ", ".join(["Samples per second over the network's limit", *filter(None, parts)])
            note = f"{INTERVALS} {CUT}." if is_cut(lines) else INTERVALS
            found.append(f'<h2>{escape(title)}</h2>{drawn}<p class="muted">{note}</p>')
    return found


def _longest(rankings: Sequence[Ranking]) -> float:
    """The slowest iteration under any condition, so that all bars have one scale."""
    return max((s.iteration_ms or 0 for ranking in rankings for s in ranking.standings), default=0) or 1.0


def _ranking(ranking: Ranking, longest_ms: float) -> str:
    found = rows_of(ranking)
    parts = [f"<h2>Ranking{escape(f' at {ranking.condition}' if ranking.condition else '')}</h2>"]
    parts += [f"<p>{escape(ranking.gains)}.</p>"] if ranking.gains else []
    if found.ranked:
        cells = "".join(f'<th class="n">{escape(name.capitalize())}</th>' for name in HEAD)
        rows = "".join(map(_row, found.ranked))
        parts.append(
            f'<div class="wide"><table><thead><tr><th>Place</th><th>Strategy</th>{cells}</tr></thead>'
            f"<tbody>{rows}</tbody></table></div>"
        )
        parts += [f'<p class="muted">{escape(note)}.</p>' for note in found.notes]
        parts.append(bars(ranking, longest_ms))
        parts.append('<p class="muted">A bar is an iteration; red is the time exposed in it.</p>')
    if found.limits:
        items = "".join(f"<li><b>{escape(name)}</b>: {escape(text)}</li>" for name, text in found.limits)
        parts.append(f"<p>What limits each:</p><ul>{items}</ul>")
    parts += [f"<p><b>{escape(name)}</b> takes no part: {escape(reason)}</p>" for name, reason in found.out]
    return "".join(parts)


def _row(row: Row) -> str:
    cells = "".join(f'<td class="n">{escape(value)}</td>' for value in row.figures)
    return f"<tr><td>{escape(row.place)}</td><td>{escape(row.name)}</td>{cells}</tr>"


def _next(suggestions: Sequence[Suggestion]) -> str:
    if not suggestions:
        return ""
    items = "".join(f"<li><b>{escape(one.text)}</b>: {escape(one.reason)}</li>" for one in suggestions)
    return f"<h2>What to try next</h2><ul>{items}</ul>"


def _method(race: RaceView) -> str:
    beside = f"{BESIDE}." if race.spec.beside else "No other job of this server ran meanwhile."
    late = dict.fromkeys(
        one.name for ranking in race.rankings for one in ranking.standings if one.joined_s is not None
    )
    who = f"every member but {' and '.join(late)}" if late else "every member"
    joined = (
        f"{' and '.join(late)} joined later and ran the rounds that were over without the others: those times are "
        "compared with nobody's. "
        if late
        else ""
    )
    text = (
        f"In each of {race.spec.rounds} rounds {who} ran once, in an order that turns from round to round, and "
        f"times were compared within the round, for all that have a place over the same rounds. {joined}{beside} An "
        "iteration lasts from the start of one forward pass to the start of the next, warm-up left out. "
        f"{SPEED_WORDS}; of several rounds both are geometric means. Exposed is "
        "the time in which a worker computed nothing because a version had not arrived, by the mean over rounds of its "
        "share of an iteration. Relative time is a member's iteration time over the fastest one's. Port busy is how "
        "much of its rate the busiest port of each moment used while workers waited. Processors busy is "
        "the share of the machine's processors that was not idle, whoever used them, and with its job the share that "
        "the member's own job took. The 95 % intervals of a ranking are so wide that in 95 of 100 such races every one "
        "of them holds the true value. A difference counts where it is more than chance and at least 1 %; with fewer "
        "than three rounds none does."
    )
    return f"<h2>How it was measured</h2><p>{escape(text)}</p>"


def _origin(origin: Provenance) -> str:
    rows = (
        ("Trainyard", f"{origin.version}, commit {origin.commit}"),
        ("Python, PyTorch", f"{origin.python}, {origin.torch}"),
        ("Devices", ", ".join(origin.devices) or "not recorded"),
        (
            "Machine of the server",
            f"{origin.cpu or 'unnamed processor'}, {origin.cores} cores, {format_bytes(origin.memory_bytes)}, "
            f"Linux {origin.kernel}",
        ),
        ("Report written", _moment(origin.written)),
    )
    cells = "".join(f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in rows)
    note = "Versions and machine are the server's when this was written; devices are those that the jobs were given."
    return f'<h2>Versions and hardware</h2><table>{cells}</table><p class="muted">{note}</p>'


def _jobs(rankings: Iterable[Ranking]) -> str:
    rows = [
        f"<tr><td>{escape(ranking.condition or '-')}</td><td>{escape(standing.name)}</td>"
        f"<td>{'<br>'.join(map(escape, standing.job_ids)) or '-'}</td></tr>"
        for ranking in rankings
        for standing in ranking.standings
    ]
    head = "<tr><th>Condition</th><th>Strategy</th><th>Ids, by round</th></tr>"
    return f"<h2>Jobs</h2><table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def _moment(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M UTC")
