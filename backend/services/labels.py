"""What people say of jobs: tags and a note, and the groups that jobs fall into."""

from __future__ import annotations

import unicodedata

from sqlalchemy import case, delete, func, select
from sqlalchemy.orm import Session

from backend.db import Database, models
from backend.db.models.labels import TAG_LENGTH
from backend.lifecycle import ENDED
from backend.scheduler import record
from backend.schemas import jobs as schema
from backend.schemas.lists import GroupQuery
from backend.schemas.people import AuditDetails
from backend.services import sorting
from backend.services.jobs import find
from backend.services.lists import conditions
from backend.services.stored import spec_of
from engine.errors import UserError
from engine.plan.serde import is_unicode, legible

MOST_TAGS = 20
NOTE_LENGTH = 4_000
MOST_GROUPS = 500
NONE_OF = {"tag": "No tag", "race": "No race"}
"""What the jobs without one are called."""


class Labels:
    """The labels of one database's jobs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def change(self, job_id: str, said: schema.Labels) -> AuditDetails | None:
        """Give the job these tags, or this note, whichever is named. Answers what has changed; None: nothing has.
        Raises NotFound, and UserError for tags or a note that cannot be kept."""
        tags = _tags(said.tags) if "tags" in said.model_fields_set else None
        writes_note = "note" in said.model_fields_set
        note = _note(said.note)

        def write(session: Session) -> AuditDetails | None:
            job = find(session, job_id)
            spec_of(job)  # what cannot be shown afterwards is refused before anything is kept
            before = set(session.scalars(select(models.JobTag.tag).where(models.JobTag.job_id == job_id)))
            after = before if tags is None else tags
            noted = writes_note and job.note != note
            if after == before and not noted:
                return None
            gone = models.JobTag.tag.in_(before - after)
            session.execute(delete(models.JobTag).where(models.JobTag.job_id == job_id, gone))
            session.add_all(models.JobTag(job_id=job_id, tag=tag) for tag in after - before)
            if noted:
                job.note = note
            record.tell(session, job)
            tagged = after != before
            return AuditDetails(
                tags=sorted(after) if tagged else None,
                former_tags=sorted(before) if tagged else None,
                note=("removed" if note is None else "written") if noted else None,
            )

        return self._database.writer.run(write)

    def groups(self, asked: GroupQuery) -> schema.JobGroups:
        """The groups of the jobs that are asked for, that with the newest one first. Raises UserError for a state that
        is none."""
        job, tag, run, race = models.Job, models.JobTag, models.RaceRun, models.Race
        value = {
            "model": sorting.model_name(),
            "strategy": sorting.strategy_name(),
            "tag": tag.tag.expression,
            "race": race.id.expression,
        }[asked.by]
        name = race.name.expression if asked.by == "race" else value
        rows = select(value.label("value"), name.label("name"), job.id, job.state).select_from(job)
        if asked.by == "tag":
            rows = rows.outerjoin(tag, tag.job_id == job.id)
        elif asked.by == "race":
            rows = rows.outerjoin(run, run.job_id == job.id).outerjoin(race, race.id == run.race_id)
        of = rows.where(*conditions(asked)).subquery().c
        active = func.sum(case((of.state.in_(ENDED), 0), else_=1))
        query = select(of.value, of.name, func.count(), active).group_by(of.value, of.name)
        with self._database.read() as session:
            found = session.execute(query.order_by(func.max(of.id).desc()).limit(MOST_GROUPS + 1)).all()
        items = [
            schema.JobGroup(value=value, name=name or NONE_OF.get(asked.by, "?"), jobs=jobs, active=going)
            for value, name, jobs, going in found[:MOST_GROUPS]
        ]
        return schema.JobGroups(items=items, truncated=len(found) > MOST_GROUPS)


def _tags(given: list[str]) -> set[str]:
    # One accented letter has two spellings that look the same: they are one tag.
    given = [unicodedata.normalize("NFC", tag.strip()) for tag in given]
    for number, tag in enumerate(given):
        if not (1 <= len(tag) <= TAG_LENGTH and tag.isprintable() and "," not in tag):
            rule = f"a tag has 1 to {TAG_LENGTH} characters on one line, all of them visible, none of them a comma"
            remedy = "Leave commas and invisible characters out, or give a shorter word"
            raise UserError(f"tags.{number}", legible(tag[: 2 * TAG_LENGTH]), rule, remedy)
    tags = set(given)
    if len(tags) > MOST_TAGS:
        raise UserError(
            "tags", len(tags), f"a job has at most {MOST_TAGS} tags", "Leave some out, or write a note"
        )
    return tags


def _note(text: str | None) -> str | None:
    """None for a note without text."""
    text = (text or "").strip()
    if len(text) > NOTE_LENGTH:
        rule = f"a note has at most {NOTE_LENGTH:,} characters"
        raise UserError("note", f"{len(text):,} characters", rule, "Write less")
    if not is_unicode(text):
        rule = "holds half of a character (a lone surrogate)"
        raise UserError("note", legible(text[:50]), rule, "Write valid text")
    return text or None
