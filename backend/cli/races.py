"""`trainyard race` and `trainyard races`: which strategy is fastest for a model on a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, TypeVar

import typer

from backend.called import called, shorten
from backend.cli import ids
from backend.cli.changes import change
from backend.cli.errors import FAILURE, interrupted, reported, say
from backend.cli.jobs import AsJson, File, Settings, Url, read_spec
from backend.cli.progress import PLANNING, Lines, working
from backend.cli.text import age, columns, out_json, span
from backend.client import Client
from backend.race_rows import HEAD, rows_of
from backend.rounding import SPEED_WORDS
from backend.schemas.races import RaceSummary, RaceView, Ranking
from engine.errors import UserError
from engine.plan.characters import visible

Strategies = Annotated[
    str | None,
    typer.Option(help="Who races, with commas. Default: parameter-server,p3,ring-allreduce-overlap,ddp."),
]
R = TypeVar("R", RaceView, RaceSummary)
OWN = ("overrides", "name")
"""What a member has beside its strategy and that one's options, of which none is called so."""
Members = Annotated[
    list[str] | None,
    typer.Option(
        "--member",
        help="One more, with options, a name, or overrides of its own in place of the job's: "
        "'p3:slice_size=500,name=halved,overrides.0.layers=fc*,overrides.0.codec=fp16'; may be given several times.",
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
    rounds: Annotated[
        int | None,
        typer.Option(help="How often each runs. Default: 4; 3 are the fewest that prove something."),
    ] = None,
    lab: Annotated[
        bool,
        typer.Option(
            "--lab",
            help="Every worker on a host of its own, in a lab whose links keep the rates; sets network.hosts. "
            "ddp and others on PyTorch's own collectives race at a rate only there.",
        ),
    ] = False,
    beside: Annotated[bool, typer.Option("--beside", help="Let other jobs run at the same time.")] = False,
    name: Annotated[str | None, typer.Option(help="What to call it. Default: the job's name.")] = None,
    url: Url = None,
    wait: Annotated[bool, typer.Option(help="Wait for its end and print who is fastest.")] = True,
    set_: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Race strategies on the job in FILE: which is fastest on which network, and why."""
    with reported(), Client(url, on_away=say) as client:
        counts = _numbers("--workers", workers)
        job = change(read_spec(file), set_)
        spec: dict[str, Any] = {"job": _in_lab(job, counts) if lab else job}
        named = members_of("--strategies", strategies, member)
        given = {
            "name": name,
            "members": named or None,
            "rates": _named("--rates", rates) or None,
            "workers": counts or None,
            "batches": _numbers("--batches", batches) or None,
            "rounds": rounds,
            "beside": beside or None,
        }
        spec |= {field: value for field, value in given.items() if value is not None}
        with (
            interrupted("no longer waited for: `trainyard races` shows whether it was started"),
            working(PLANNING),
        ):
            made = client.start_race(spec)
        if not as_json:
            typer.echo(made.id)
        for line in _left_out(made, client):
            say(line)
        if wait:
            goes_on = f"the race goes on; `trainyard races {made.id} --cancel` ends it"
            with interrupted(goes_on), working("racing") as tell:

                def far(seen: RaceView) -> tuple[int, str | None]:
                    return seen.jobs_ended, seen.waits

                lines = Lines(far(made))

                def look(seen: RaceView) -> None:
                    tell(how_far(seen))
                    lines.tell(far(seen), how_far(seen))

                made = client.wait_for_race(made.id, on_look=look)
                look(made)
    _print(made, as_json, report if wait else lambda _: "")
    if wait and made.state != "finished":
        raise typer.Exit(FAILURE)


def races(
    race_id: Annotated[str | None, typer.Argument(metavar="[RACE_ID]", help="Show this one.")] = None,
    *,
    add: Annotated[
        str | None, typer.Option(help="Add one more strategy, written as for --member of `trainyard race`.")
    ] = None,
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
            if not as_json:
                typer.echo(_table(items))
            for one in items if as_json else ():
                out_json(one, lines=False)
            return
        race_id = ids.race_id(client, race_id)
        if delete:
            client.delete_race(race_id)
            return
        if cancel:
            ended = client.cancel_race(race_id)
            _print(ended, as_json, lambda race: _table([race]))
            return
        found = client.standings(race_id)
        if add:
            found = client.join_race(race_id, [_member("--add", add)])
    _print(found, as_json, report)


def race_report(
    race_id: Annotated[str, typer.Argument(metavar="RACE_ID", help="The race's id.")],
    url: Url = None,
) -> None:
    """Print a race as one HTML file that needs nothing else: `trainyard race-report ID > race.html`."""
    with reported(), Client(url) as client:
        typer.echo(client.race_report(ids.race_id(client, race_id)), nl=False)


def _print(race: R, as_json: bool, told: Callable[[R], str]) -> None:
    if as_json:
        out_json(race)
    else:
        typer.echo(told(race))


def _in_lab(job: dict[str, Any], workers: Sequence[int]) -> dict[str, Any]:
    """The job with a host for each of its workers, of the largest of these numbers."""
    cluster = job.get("cluster")
    own = cluster.get("workers", 1) if isinstance(cluster, dict) else 1
    return change(job, [f"network.hosts={max(workers, default=own)}"])


def _left_out(race: RaceView, client: Client) -> Iterator[str]:
    """Who takes no part from the beginning, and what would let him: nobody should learn it when the race has ended."""
    outs = dict.fromkeys(
        (one.name, one.out) for ranking in race.rankings for one in ranking.standings if one.out
    )
    yield from (f"{name} takes no part: {reason}" for name, reason in outs)
    if race.spec.job.network.hosts is None and any("network.hosts" in reason for _, reason in outs):
        found = client.lab()
        yield (
            "--lab lets them race here: every worker on a host of its own (network.hosts)"
            if found.permitted
            else f"--lab (network.hosts) would let them race, but not here: {found.why_not}"
        )


def report(race: RaceView) -> str:
    """The rankings as text: under each condition who is ahead, by how much, and why."""
    labels = "; ".join(filter(None, (race.rehearsed, race.slowed)))
    lines = [f"{race.name}: {how_far(race)}" + (f" ({labels})" if labels else "")]
    lines += race.notes
    for ranking in race.rankings:
        lines += ["", *_ranking(ranking)]
    if any(standing.iteration_ms is not None for one in race.rankings for standing in one.standings):
        lines += ["", f"{SPEED_WORDS}; relative time is the iteration over the fastest's."]
    if race.crossings:
        lines += ["", *race.crossings]
    if race.next:
        lines += ["", "what to try next:", *(f"   {one.text}: {one.reason}" for one in race.next)]
    return visible("\n".join(lines))


def _ranking(ranking: Ranking) -> list[str]:
    found = rows_of(ranking)
    lines = [f"{ranking.condition}: {ranking.sentence}" if ranking.condition else ranking.sentence]
    lines += [f"{ranking.gains}."] if ranking.gains else []
    if found.ranked:
        rows = [(f"{row.place} {row.name}", *row.figures) for row in found.ranked]
        lines.append(columns(("", *HEAD), rows))
        lines += [f"   {note}." for note in found.notes]
    lines += [f"   {name}: {sentence}" for name, sentence in found.limits]
    return lines + [f"{name} takes no part: {reason}" for name, reason in found.out]


def _table(items: Iterable[RaceSummary]) -> str:
    items = list(items)
    short = shorten(race.id for race in items)
    head = ("id", "name", "state", "members", "model", "jobs", "age")
    return columns(
        head,
        (
            (
                short[race.id],
                race.name,
                race.state if race.waits is None else f"{race.state}, waits",
                ", ".join(race.members),
                called(race.model, race),
                f"{race.jobs_ended}/{race.jobs}",
                age(race.created_at),
            )
            for race in items
        ),
    )


def how_far(race: RaceView) -> str:
    """`running, round 2, 5 of 12 jobs ended, about 6 min left`; of one that waits, for what."""
    if race.waits is not None:
        return f"{race.waits}; {race.jobs_ended} of {race.jobs} jobs ended"
    text = f"{race.state}, round {race.round}, {race.jobs_ended} of {race.jobs} jobs ended"
    if race.jobs_failed:
        text += f", {race.jobs_failed} failed"
    return text if race.left_s is None else f"{text}, about {span(race.left_s)} left"


def members_of(option: str, strategies: str | None, member: Sequence[str] | None) -> list[dict[str, Any]]:
    """Those whom `option` names with commas, and those of --member. Raises UserError."""
    return [{"strategy": one} for one in _named(option, strategies)] + [
        _member("--member", text) for text in member or []
    ]


def _member(option: str, text: str) -> dict[str, Any]:
    """`p3:slice_size=500,overrides.0.layers=fc*,overrides.0.codec=fp16,name=halved`: a strategy, its options, and what
    is the member's own (OWN). A comma within brackets is a value's."""
    strategy, _, rest = text.partition(":")
    member: dict[str, Any] = {"strategy": strategy.strip(), "options": {}}
    for part in _parts(rest):
        field, equals, value = part.partition("=")
        names = field.strip().split(".")
        if not (equals and all(names)):
            rule = f"{part!r} is no option=value"
            raise UserError(option, text, rule, f"Example: {option} p3:slice_size=500")
        if names[0] not in OWN:
            names.insert(0, "options")
        try:
            member = change(member, [f"{'.'.join(names)}={value}"])
        except UserError as error:
            raise UserError(option, text, error.rule, error.remedy) from None
    return member


def _named(option: str, text: str | None) -> list[str]:
    """The parts of an option. What names none is a mistake: left out, the option means something else."""
    parts = _parts(text)
    if text is not None and not parts:
        raise UserError(option, text, "names nothing", "Name at least one, or leave the option out")
    return parts


def _parts(text: str | None) -> list[str]:
    """Between commas, but for those within brackets: `a=[1, 2]` is one."""
    parts, depth = [""], 0
    for letter in text or "":
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _numbers(option: str, text: str | None) -> list[int]:
    parts = _named(option, text)
    try:
        return [int(part) for part in parts]
    except ValueError:
        raise UserError(option, text, "must be whole numbers with commas", "Example: 2,4,8") from None
