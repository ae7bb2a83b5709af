"""Figures, built once for all viewers and kept until the data change."""

from __future__ import annotations

import gzip
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy.orm import Session

from backend.db import Database, models
from backend.figures import answers, registry
from backend.figures.compare import By, What
from backend.figures.race_learning import Learning
from backend.figures.race_throughput import Curves
from backend.figures.request import FigureRequest
from backend.figures.why import Wait
from backend.schemas.catalogue import FigureEntry
from backend.schemas.figures import Race, StepRange
from backend.schemas.why import Why
from backend.services import why as waits
from backend.services.drawing import Drawing
from backend.services.errors import NotFound
from backend.services.jobs import find
from backend.services.remember import Remembered
from backend.services.views import Views, attempt_of
from engine.errors import UnknownNameError, UserError
from engine.plan.largest import LargestCurve

CACHE_BYTES = 64 << 20
MOST_RACERS = 8
MOST_COMPARED = 24
COMPRESSION = 4
Answer = tuple[bytes | None, str]
"""JSON, compressed with gzip, and its tag; None where the tag that was asked with still holds."""


class Figures:
    """Builds figures of one database."""

    def __init__(
        self,
        database: Database,
        views: Views,
        drawing: Drawing,
        verdict_on: Callable[[Sequence[str]], str | None] = lambda job_ids: None,
    ) -> None:
        """`verdict_on`: what the rounds of these jobs' race say; None where they are no race's."""
        self._database = database
        self._views = views
        self._drawing = drawing
        self._verdict_on = verdict_on
        self._built: Remembered[bytes] = Remembered(room=CACHE_BYTES, size=len)
        self._life = time.time_ns()  # another program may draw the same data differently

    def make_ready(self) -> None:
        """Somebody looks on: let the first figure not wait for the processes that draw."""
        self._drawing.make_ready()

    def catalogue(self) -> list[FigureEntry]:
        """Every figure of a job."""
        return [
            FigureEntry(
                name=entry.name, title=entry.title, summary=entry.summary, definitions=entry.definitions
            )
            for entry in registry.FIGURES.values()
        ]

    def job(self, job_id: str, name: str, view: dict[str, Any], held: str | None) -> Answer:
        """One figure of one job. Raises NotFound, and UserError for what cannot be shown."""
        try:
            registry.figure(name)
        except UnknownNameError as error:
            raise NotFound(str(error), [error]) from None
        request = _request(view)
        with self._database.read() as session:
            attempt_of(session, find(session, job_id), request.attempt)
            compared = [request.baseline] if request.baseline else []
            tag = self._tag(session, name, [job_id, *compared], view)
        return self._answer(tag, held, lambda: self._drawing.run(answers.job_figure, name, job_id, request))

    def race(self, job_ids: Sequence[str], view: dict[str, Any], held: str | None) -> Answer:
        """Several jobs on one time axis: JSON of `Race`. Raises NotFound, and UserError for too few or too
        many."""
        if not 2 <= len(set(job_ids)) == len(job_ids) <= MOST_RACERS:
            raise UserError(
                "jobs",
                ",".join(job_ids),
                f"a race is between 2 and {MOST_RACERS} different jobs",
                "Give their ids",
            )
        request = _request(view)
        with self._database.read() as session:
            tag = self._tag(session, "race", job_ids, view)
        # Its other rounds go on while these jobs stay as they are.
        verdict = self._verdict_on(job_ids)
        if verdict is not None:
            tag = _hashed([tag, verdict])
        return self._answer(tag, held, lambda: self._race(job_ids, request, verdict))

    def compare(
        self,
        job_ids: Sequence[str],
        what: What,
        by: By,
        view: dict[str, Any],
        held: str | None,
        smoothing: int | None = None,
    ) -> Answer:
        """One measurement of several jobs. Raises NotFound, and UserError for too few or too many."""
        if not 1 <= len(set(job_ids)) == len(job_ids) <= MOST_COMPARED:
            raise UserError(
                "jobs",
                ",".join(job_ids),
                f"a comparison is of 1 to {MOST_COMPARED} different jobs",
                "Give their ids",
            )
        request = _request(view)
        with self._database.read() as session:
            tag = self._tag(session, f"compare {what} {by} {smoothing}", job_ids, view)

        def drawn() -> bytes:
            return self._drawing.run(answers.jobs_compared, job_ids, what, by, request, smoothing)

        return self._answer(tag, held, drawn)

    def check_race_figure(self, name: str) -> None:
        """Raises NotFound for a figure of races that there is not, whatever the race."""
        try:
            registry.race_figure(name)
        except UnknownNameError as error:
            raise NotFound(str(error), [error]) from None

    def of_race(self, name: str, curves: Curves | Learning, view: dict[str, Any], held: str | None) -> Answer:
        """One figure of a race of strategies. Raises UserError for what cannot be shown."""
        request = _request(view)
        tag = _hashed([self._life, name, asdict(curves), view])
        return self._answer(tag, held, lambda: self._drawing.run(answers.race_curves, name, curves, request))

    def of_plan(self, name: str, curve: LargestCurve, view: dict[str, Any]) -> bytes:
        """One figure of a job before it runs, compressed with gzip. Raises UserError for what cannot be shown."""
        request = _request(view)
        tag = _hashed([self._life, name, asdict(curve), view])
        drawn = self._answer(tag, None, lambda: self._drawing.run(answers.plan_curve, name, curve, request))[
            0
        ]
        assert drawn is not None
        return drawn

    def why(self, job_id: str, attempt: int | None, wait: Wait) -> Why:
        """Why a worker waited in that attempt, else in the latest. Raises NotFound for a job or a wait that there is
        not, and UserError for an attempt."""
        with self._database.read() as session:
            attempt_of(session, find(session, job_id), attempt)
        return self._drawing.run(waits.read, job_id, attempt, wait)

    def _race(self, job_ids: Sequence[str], request: FigureRequest, verdict: str | None) -> bytes:
        drawn = self._drawing.run(answers.jobs_race, job_ids, request)
        with self._database.read() as session:
            racers = [self._views.summary(session, find(session, job_id)) for job_id in job_ids]
        around = StepRange(**drawn.steps)
        answer = Race(
            headline=drawn.headline
            if verdict is None
            else f"{drawn.headline}. Rounds of their race: {verdict}",
            figure={},
            jobs=racers,
            step=drawn.step,
            steps=around,
            aligned=drawn.step is not None,
        )
        # Put in as it is: only Plotly's own encoder writes the figure's typed arrays compactly.
        whole = answer.model_dump_json(exclude={"figure"})
        return f'{whole[:-1]},"figure":{drawn.figure}}}'.encode()

    def _answer(self, tag: str, held: str | None, build: Callable[[], bytes]) -> Answer:
        if held is not None and tag in (part.strip().removeprefix("W/") for part in held.split(",")):
            return None, tag
        return self._built.get(tag, lambda: gzip.compress(build(), COMPRESSION)), tag

    def _tag(self, session: Session, name: str, job_ids: Sequence[str], view: dict[str, Any]) -> str:
        """Changes when the figure may: with the data of its jobs and of their baselines, and with what is
        asked."""
        rows = [find(session, job_id) for job_id in job_ids]
        baselines = [session.get(models.Job, row.baseline_id) for row in rows if row.baseline_id]
        revisions = [[row.id, row.revision] for row in (*rows, *baselines) if row is not None]
        return _hashed([self._life, name, revisions, view])


def _hashed(content: object) -> str:
    """An `ETag` of plain data."""
    text = json.dumps(content, sort_keys=True)
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


def _request(view: dict[str, Any]) -> FigureRequest:
    try:
        return FigureRequest(**view)
    except UserError:
        raise
    except ValueError as error:
        rule, _, remedy = str(error).partition(". ")
        field = rule.partition(" ")[0].rstrip(",")
        raise UserError(field, view.get(field), rule, remedy) from None
