"""`trainyard race` and `trainyard races`: which strategy is fastest for a model on a network."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from backend.cli.changes import change
from backend.cli.errors import FAILURE, reported, say
from backend.cli.jobs import AsJson, File, Settings, Url, read_spec
from backend.cli.progress import PLANNING, working
from backend.cli.text import age, columns, number
from backend.client import Client
from backend.schemas.races import RaceSummary, RaceView, Ranking, Standing
from engine.errors import UserError
from engine.plan.documents import load_text

Strategies = Annotated[
    str | None,
    typer.Option(help="Who races, with commas. Default: parameter-server,p3,ring-allreduce-overlap,ddp."),
]
Members = Annotated[
    list[str] | None,
    typer.Option(
        "--member",
        help="One more, with options: 'p3:slice_size=500,where=dedicated'; may be given several times.",
    ),
]


def race(
    *,
    file: File,
    strategies: Strategies = None,
    member: Members = None,
    rates: Annotated[
        str | None, typer.Option(help="Limits of the network, with commas: 100Mbit,1Gbit.")
    ] = None,
    workers: Annotated[str | None, typer.Option(help="Numbers of workers, with commas.")] = None,
    batches: Annotated[str | None, typer.Option(help="Global batches, with commas.")] = None,
    rounds: Annotated[int | None, typer.Option(help="How often each runs. Default: 3, the fewest.")] = None,
    beside: Annotated[bool, typer.Option("--beside", help="Let other jobs run at the same time.")] = False,
    name: Annotated[str | None, typer.Option(help="What to call it. Default: the job's name.")] = None,
    url: Url = None,
    wait: Annotated[bool, typer.Option(help="Wait for its end and print who is fastest.")] = True,
    set_: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Race strategies on the job in FILE: which is fastest on which network, and why."""
    with reported(), Client(url, on_away=say) as client:
        spec: dict[str, Any] = {"job": change(read_spec(file), set_)}
        named = [{"strategy": one} for one in _parts(strategies)] + [_member(text) for text in member or []]
        given = {
            "name": name,
            "members": named or None,
            "rates": _parts(rates) or None,
            "workers": _numbers("--workers", workers) or None,
            "batches": _numbers("--batches", batches) or None,
            "rounds": rounds,
            "beside": beside or None,
        }
        spec |= {field: value for field, value in given.items() if value is not None}
        with working(PLANNING):
            made = client.race(spec)
        if not as_json:
            typer.echo(made.id)
        if wait:
            with working("racing") as tell:
                made = client.wait_for_race(made.id, on_look=lambda seen: tell(_standing(seen)))
    typer.echo(made.model_dump_json(indent=2) if as_json else report(made) if wait else "")
    if wait and made.state != "finished":
        raise typer.Exit(FAILURE)


def races(
    race_id: Annotated[str | None, typer.Argument(metavar="[RACE_ID]", help="Show this one.")] = None,
    *,
    add: Annotated[str | None, typer.Option(help="Let more race, as --member of `trainyard race`.")] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="End it and its job that runs.")] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Forget it; its jobs stay.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List races, newest first, or show one with its rankings."""
    with reported(), Client(url) as client:
        if race_id is None:
            if add or cancel or delete:
                raise UserError("RACE_ID", None, "is missing", "Name the race; `trainyard races` lists them")
            items = client.races(limit=50).items
            for line in (race.model_dump_json() for race in items) if as_json else [_table(items)]:
                typer.echo(line)
            return
        if delete:
            client.delete_race(race_id)
            return
        found = client.standings(race_id)
        if add:
            found = client.join_race(race_id, [_member(add)])
        if cancel:
            found = client.cancel_race(race_id)
    typer.echo(found.model_dump_json(indent=2) if as_json else report(found))


def report(race: RaceView) -> str:
    """The rankings as text: under each condition who is ahead, by how much, and why."""
    lines = [f"{race.name}: {_standing(race)}" + (f" ({race.rehearsed})" if race.rehearsed else "")]
    for ranking in race.rankings:
        lines += ["", *_ranking(ranking)]
    if race.crossings:
        lines += ["", *race.crossings]
    return "\n".join(lines)


def _ranking(ranking: Ranking) -> list[str]:
    head = ("", "iteration", "exposed", "samples/s", "times the fastest's", "95 %", "rounds")
    shown = [standing for standing in ranking.standings if standing.rank is not None]
    lines = [f"{ranking.condition}: {ranking.sentence}" if ranking.condition else ranking.sentence]
    if shown:
        lines.append(columns(head, [_row(standing) for standing in shown]))
    return lines + [f"{s.name} takes no part: {s.out}" for s in ranking.standings if s.out]


def _row(standing: Standing) -> tuple[str, ...]:
    interval = "-" if standing.low is None else f"{standing.low:.3f} to {standing.high:.3f}"
    return (
        f"{standing.rank}. {standing.name}",
        number(standing.iteration_ms, "{:.2f} ms"),
        number(standing.exposed_ms, "{:.2f} ms"),
        number(standing.samples_per_s, "{:.1f}"),
        number(standing.times_fastest, "{:.3f}"),
        interval,
        str(standing.rounds),
    )


def _table(items: Iterable[RaceSummary]) -> str:
    head = ("id", "name", "state", "members", "model", "jobs", "age")
    return columns(
        head,
        (
            (
                race.id,
                race.name,
                race.state,
                ", ".join(race.members),
                f"{race.model} (rehearsed)" if race.rehearsed else race.model,
                f"{race.jobs_ended}/{race.jobs}",
                age(race.created_at),
            )
            for race in items
        ),
    )


def _standing(race: RaceView) -> str:
    """`running, round 2, 5 of 12 jobs ended, about 40 s left`."""
    text = f"{race.state}, round {race.round}, {race.jobs_ended} of {race.jobs} jobs ended"
    return text if race.left_s is None else f"{text}, about {race.left_s:.0f} s left"


def _member(text: str) -> dict[str, Any]:
    """`p3:slice_size=500,where=dedicated`."""
    strategy, _, rest = text.partition(":")
    options = {}
    for part in _parts(rest):
        field, equals, value = part.partition("=")
        if not (equals and field):
            rule = f"{part!r} is no option=value"
            raise UserError("--member", text, rule, "Example: --member p3:slice_size=500")
        options[field] = load_text(value, text)
    return {"strategy": strategy.strip(), "options": options}


def _parts(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _numbers(option: str, text: str | None) -> list[int]:
    try:
        return [int(part) for part in _parts(text)]
    except ValueError:
        raise UserError(option, text, "must be whole numbers with commas", "Example: 2,4,8") from None
