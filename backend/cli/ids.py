"""Ids of jobs and races as people write them: any beginning that only one of them has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from backend.client import Client
from engine.errors import UserError

LEAST = 4
"""Of a beginning: what is shorter, the server looks for in names only."""
SHORT = 13
"""An id is shown with as many, which say to the millisecond when it was made, or with more where these do not tell it
apart: what a list shows also names one of those that it leaves out."""
LISTED = 10
"""Candidates, in the words about a beginning that several have."""
RACES_AT_ONCE = 200
LISTS = {"job": "list", "race": "races"}
"""The commands that show ids."""


def job_id(client: Client, text: str) -> str:
    """The whole id of the job whose id begins with `text`, in capital letters or small ones. Raises UserError where
    there is none, naming the candidates where there are several, and for less than LEAST characters."""
    text = _beginning("job", text)
    found = _jobs(client, text)
    if not found and (races := _races(client, text)):
        race = chosen("race", text, races)
        rule = f"is a race, {races[race]!r}, and no job"
        remedy = f"`trainyard races {race}` shows it, and `trainyard races {race} --cancel` ends it"
        raise UserError("job id", text, rule, remedy)
    return chosen("job", text, found)


def race_id(client: Client, text: str) -> str:
    """The same of a race."""
    text = _beginning("race", text)
    found = _races(client, text)
    if not found and (jobs := _jobs(client, text)):
        job = chosen("job", text, jobs)
        raise UserError(
            "race id", text, f"is a job, {jobs[job]!r}, and no race", f"`trainyard show {job}` shows it"
        )
    return chosen("race", text, found)


def _jobs(client: Client, text: str) -> dict[str, str]:
    """Names by id, of the jobs whose ids begin with `text`."""
    return {job.id: job.name for job in client.jobs(text=text, limit=1_000) if job.id.startswith(text)}


def _races(client: Client, text: str) -> dict[str, str]:
    """The same of races."""
    found: dict[str, str] = {}
    cursor: str | None = None
    while True:
        page = client.races(limit=RACES_AT_ONCE, cursor=cursor)
        found |= {race.id: race.name for race in page.items if race.id.startswith(text)}
        if (cursor := page.next_cursor) is None:
            return found


def _beginning(what: str, text: str) -> str:
    """As ids are written. So few characters may be anybody's, and somebody is cancelled or deleted by them."""
    if len(text) < LEAST:
        rule = f"fewer than {LEAST} characters name no {what}"
        raise UserError(f"{what} id", text, rule, f"Give more of them; `trainyard {LISTS[what]}` shows ids")
    return text.lower()


def chosen(what: str, text: str, found: Mapping[str, str]) -> str:
    """The one id among `found` (names by id), all of which begin with `text`; see `job_id`."""
    if not found:
        raise UserError(f"{what} id", text, f"no such {what}", f"`trainyard {LISTS[what]}` lists them")
    if len(found) == 1:
        return next(iter(found))
    short = shorten(found)
    named = [f"{short[id_]} ({name})" for id_, name in sorted(found.items())]
    more = f" and {len(named) - LISTED} more" if len(named) > LISTED else ""
    rule = f"{len(named)} {what}s begin with it: {', '.join(named[:LISTED])}{more}"
    raise UserError(f"{what} id", text, rule, "Give more of its characters")


def shorten(ids: Iterable[str]) -> dict[str, str]:
    """Each id's shortest beginning that no other one of them has, of at least SHORT characters."""
    ordered = sorted(set(ids))
    short = {}
    for place, id_ in enumerate(ordered):
        beside = [*ordered[max(place - 1, 0) : place], *ordered[place + 1 : place + 2]]
        length = max([SHORT, *(_shared(id_, other) + 1 for other in beside)])
        short[id_] = id_[:length]
    return short


def _shared(one: str, other: str) -> int:
    """Characters that both begin with."""
    return next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(one))
