"""`trainyard best`: which plan is best for a problem, by four criteria."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from backend.best_rows import CURVE_HEAD, HEAD, last, rows
from backend.cli import ids
from backend.cli.changes import change
from backend.cli.errors import FAILURE, interrupted, reported, say
from backend.cli.jobs import AsJson, Settings, Url, read_spec
from backend.cli.progress import PLANNING, Lines, working
from backend.cli.races import how_far, members_of
from backend.cli.text import columns, out_json
from backend.client import Client
from backend.schemas.best import BestCondition, RaceBest
from backend.schemas.races import RaceView
from engine.errors import UserError
from engine.plan.characters import visible


def best(
    *,
    problem: Annotated[
        str | None,
        typer.Argument(
            metavar="[PROBLEM]", help="digits, gpt or lstm; or a job's file, as for `trainyard submit`."
        ),
    ] = None,
    plans: Annotated[
        str | None,
        typer.Option(
            help="Which strategies, with commas. Default: parameter-server,p3,parameter-averaging,async-sgd,"
            "decentralized-async."
        ),
    ] = None,
    member: Annotated[
        list[str] | None,
        typer.Option(
            "--member",
            help="A plan with options, as for `trainyard race`, beside those of --plans, or without these in place of "
            "the default; may be given several times.",
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            help="How often each trains, every time from another seed. Default: 5; 3 are the fewest."
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="How long each trains. Default: the problem's own.")
    ] = None,
    race: Annotated[str | None, typer.Option(help="Ask about a race that there is, and start none.")] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write the answer with its charts to this file, too.")
    ] = None,
    url: Url = None,
    set_: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Which plan is best for PROBLEM: the fastest, and that which learns best at all, in the same time, and from as
    many samples. Trains it under each plan from several seeds, as a race."""
    with reported(), Client(url, on_away=say) as client:
        if html is not None and not html.absolute().parent.is_dir():
            rule = f"there is no folder {html.parent}"
            raise UserError("--html", str(html), rule, "Make the folder, or name another file")
        if html is not None and html.is_dir():
            raise UserError("--html", str(html), "is a folder", "Name a file in it")
        if race is not None:
            given = {
                "PROBLEM": problem,
                "--plans": plans,
                "--member": member,
                "--seeds": seeds,
                "--steps": steps,
            }
            if begins := [name for name, value in given.items() if value is not None]:
                rule = f"asks about a race that there is, and {', '.join(begins)} would begin another"
                raise UserError("--race", race, rule, "Leave one of them out")
            race_id = ids.race_id(client, race)
            ended = True
        else:
            race_id = _started(client, problem, plans, member, seeds, steps, set_)
            say(f"race {race_id}")
            ended = _waited(client, race_id).state == "finished"
        found = client.best(race_id)
        # Before the file: what cannot be written must not cost the answer, which took minutes.
        if as_json:
            out_json(found)
        else:
            typer.echo(report(found))
        if html is not None:
            page = client.race_report(race_id)
            try:
                html.write_text(page, encoding="utf-8")
            except OSError as error:
                rule = f"cannot be written: {error.strerror}"
                remedy = f"Ask once more: trainyard best --race {race_id} --html FILE"
                raise UserError("--html", str(html), rule, remedy) from None
    if not ended:
        raise typer.Exit(FAILURE)


def _started(
    client: Client,
    problem: str | None,
    plans: str | None,
    member: list[str] | None,
    seeds: int | None,
    steps: int | None,
    set_: list[str] | None,
) -> str:
    from backend.races import problems  # noqa: PLC0415 - who asks about a race that there is needs no strategies
    from backend.races.spec import FEWEST_ROUNDS, MemberSpec  # noqa: PLC0415
    from engine.plan.serde import from_plain  # noqa: PLC0415

    if problem is None:
        known = ", ".join(entry.name for entry in problems.PROBLEMS)
        raise UserError("PROBLEM", None, "is missing", f"Name one of {known}, or a job's file")
    if seeds is not None and seeds < FEWEST_ROUNDS:
        rule = f"must be at least {FEWEST_ROUNDS}: from fewer nobody can tell which plan is best"
        raise UserError("--seeds", seeds, rule, f"Leave it out for {problems.SEEDS}")
    if Path(problem).is_file():
        job: dict[str, Any] = read_spec(Path(problem))
    else:
        job = problems.job(problems.problem(problem))
    named = tuple(from_plain(MemberSpec, one) for one in members_of("--plans", plans, member))
    if len(named) == 1:
        option, value = ("--plans", plans) if plans is not None else ("--member", (member or [""])[0])
        raise UserError(
            option, value, "is one plan, compared with nobody", "Name two, or none for the default"
        )
    spec = problems.asked(
        change(job, set_), members=named, seeds=problems.SEEDS if seeds is None else seeds, steps=steps
    )
    with (
        interrupted("no longer waited for: `trainyard races` shows whether it was started"),
        working(PLANNING),
    ):
        return client.start_race(spec).id


def _waited(client: Client, race_id: str) -> RaceView:
    shows, ends = f"`trainyard best --race {race_id}`", f"`trainyard races {race_id} --cancel`"
    goes_on = f"the race goes on; {shows} shows its answer, {ends} ends it"
    with interrupted(goes_on), working("training") as tell:
        first = client.standings(race_id)
        lines = Lines((first.jobs_ended, first.waits))

        def look(seen: RaceView) -> None:
            tell(how_far(seen))
            lines.tell((seen.jobs_ended, seen.waits), how_far(seen))

        ended = client.wait_for_race(race_id, on_look=look)
        look(ended)
    return ended


def report(best: RaceBest) -> str:
    """The answer as text: the verdict by each criterion with its reason, and the figures."""
    seeds = f"{best.seeds} seed{'s' * (best.seeds != 1)}"
    lines = [f"{best.name}: {best.state}, {seeds}"]
    for one in best.conditions:
        lines += ["", *_condition(best, one)]
    return visible("\n".join(lines))


def _condition(best: RaceBest, one: BestCondition) -> list[str]:
    lines = [f"{one.condition}: {one.sentence}" if one.condition else one.sentence]
    for each in one.criteria:
        lines += ["", f"{each.title}{f' ({each.at})' if each.at else ''}", f"   {each.verdict}."]
        lines += [f"   Why: {each.reason}."] if each.reason else []
        if each.places:
            lines.append(
                columns(("   plan", *HEAD), ((f"   {name}", *rest) for name, *rest in rows(best, each)))
            )
    score = "accuracy" if best.score == "accuracy" else "loss"
    lines += [
        "",
        columns(
            ("at the end", f"test {score}", "95 %", *CURVE_HEAD), (last(best, curve) for curve in one.curves)
        ),
    ]
    return lines + [f"   {note}." for note in one.notes]
