"""Ids of jobs and races as people write them: any beginning that only one of them has."""

from __future__ import annotations

from collections.abc import Mapping

from backend.called import shorten
from backend.client import Client
from engine.errors import UserError

LEAST = 4
"""Of a beginning: what is shorter, the server looks for in names only."""
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
        page = client.races(text=text, limit=RACES_AT_ONCE, cursor=cursor)
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
    # Ids begin with their time: the newest, which is most often meant, is never among those that are left out.
    named = [f"{short[id_]} ({name})" for id_, name in sorted(found.items(), reverse=True)]
    more = f" and {len(named) - LISTED} more" if len(named) > LISTED else ""
    rule = f"{len(named)} {what}s begin with it: {', '.join(named[:LISTED])}{more}"
    raise UserError(f"{what} id", text, rule, "Give more of its characters")
