"""A job's checkpoints, and its model for other programs: a short process that loads torch puts it together and writes
it to a pipe (`engine/runtime/export.py`); what comes out of that is the answer, piece by piece."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.db import Database, models
from backend.executors.attempt_files import AttemptFiles, FilesOf
from backend.executors.environment import inherited
from backend.lifecycle import State
from backend.schemas.checkpoints import Checkpoint, Checkpoints, Exported, ExportQuery, ModelEnd
from backend.services.asker import Asker
from backend.services.describing import SOURCE
from backend.services.errors import Conflict
from backend.services.jobs import find
from backend.services.times import moment
from backend.services.turns import Turns
from backend.version import program_version
from engine.errors import UserError

AT_ONCE, WAITING, RETRY_AFTER_S = 2, 6, 10.0
"""Each has the model in memory."""
PIECE_BYTES = 1 << 20
PATIENCE_S = 60.0
"""How long who reads may take for one piece while others wait: a place holds a model in memory."""
SAID_BYTES = 2_000
"""The end of what the process says, which holds its error."""
SUFFIXES: dict[Exported, str] = {"model": "safetensors", "optimizer": "pt"}


class Pieces:
    """The file, as it comes out of the process, which ends when nobody has this any more."""

    def __init__(self, program: subprocess.Popen[bytes], said: IO[bytes], turn: ExitStack) -> None:
        """Waits for the first piece. Raises UserError for what the process refuses, Conflict where it fails."""
        self._program = program
        self._said = said
        self._reading = threading.Lock()
        self._given_s: float | None = None
        """When the last piece was given; None before the first."""
        self._slow = False
        self._end = weakref.finalize(self, _end, program, said, turn)
        try:
            self._first: bytes | None = self._read()
        except BaseException:
            self._end()
            raise

    def __iter__(self) -> Pieces:
        return self

    def __next__(self) -> bytes:
        with self._reading:
            if self._slow:
                raise Conflict(
                    f"who asked for the model took nothing of it for {PATIENCE_S:g} s while others waited. Ask again"
                )
            piece, self._first = self._first, None
            if piece is None:
                piece = self._read()
            self._given_s = time.monotonic()
        if piece:
            return piece
        self._end()
        raise StopIteration

    def end_if_slow(self, now_s: float) -> None:
        """Others wait: who has taken nothing for PATIENCE_S loses the place, and the answer breaks off."""
        if not self._reading.acquire(blocking=False):
            return  # the next piece is being made
        try:
            if self._given_s is not None and now_s - self._given_s > PATIENCE_S:
                self._slow = True
                self._end()
        finally:
            self._reading.release()

    def close(self) -> None:
        """Nobody wants the rest."""
        self._end()

    def _read(self) -> bytes:
        """Nothing once all has been read. Raises where the process has failed, so that half a file does not pass for a
        whole one."""
        assert self._program.stdout is not None
        piece = self._program.stdout.read(PIECE_BYTES)
        if len(piece) < PIECE_BYTES and self._program.wait():
            self._said.seek(0)
            raise _refusal(self._said.read()[-SAID_BYTES:].decode("utf-8", "replace"))
        return piece


def _end(program: subprocess.Popen[bytes], said: IO[bytes], turn: ExitStack) -> None:
    with turn, said, program:
        program.kill()


def _refusal(said: str) -> Exception:
    last = (said.strip().splitlines() or ["it said nothing"])[-1]
    try:
        found = json.loads(last)
        return UserError(found["field"], found["value"], found["rule"], found["remedy"])
    except (ValueError, TypeError, KeyError):
        return Conflict(f"the model could not be exported: {last}. Ask again")


@dataclass(frozen=True, kw_only=True)
class Export:
    """What was asked for."""

    file: str
    """What it is called."""
    step: int
    pieces: Pieces


class CheckpointReader:
    """The checkpoints of every job of one database."""

    def __init__(self, database: Database, files: FilesOf) -> None:
        self._database = database
        self._files = files
        self._given: weakref.WeakSet[Pieces] = weakref.WeakSet()
        """What is being read."""
        self._turns = Turns(
            waiting=WAITING,
            at_once=AT_ONCE,
            busy="{places} models are being exported, or wait for it",
            retry_after_s=RETRY_AFTER_S,
        )

    def read(self, job_id: str) -> Checkpoints:
        """What is kept of a job. Raises NotFound."""
        with self._database.read() as session:
            attempts = _attempts(session, find(session, job_id))
        return _checkpoints(attempts, self._files)

    def export(self, job_id: str, asked: ExportQuery, asker: Asker | None = None) -> Export:
        """The job's model, or its optimizer's state. Raises NotFound, UserError for a step of which there is no
        checkpoint, Conflict where there is nothing yet, Busy, and Left where the asker is gone."""
        with self._database.read() as session:
            job = find(session, job_id)
            attempts, name = _attempts(session, job), job.name
        kept = _checkpoints(attempts, self._files)
        step = asked.step
        if step is None and (kept.end is None or asked.what == "optimizer") and kept.items:
            step = kept.items[0].step
        if step is None:
            if kept.end is None:
                raise Conflict(_nothing(attempts, self._files))
            number, shown = kept.end.attempt, kept.end.step
        else:
            made = {one.step: one.attempt for one in kept.items}
            if step not in made:
                steps = ", ".join(str(one.step) for one in kept.items) or "none"
                rule = "the job has no checkpoint of this step (any more)"
                raise UserError("step", step, rule, f"There are: {steps}")
            number, shown = made[step] or attempts[-1].number, step
        about = {
            "job": job_id,
            "job_name": name,
            "attempt": str(number),
            "trainyard_version": program_version(),
        }
        directory = next(attempt.directory for attempt in attempts if attempt.number == number)
        request = {"step": step, "what": asked.what, "about": about}
        return Export(
            file=f"{name} step {shown} {asked.what}.{SUFFIXES[asked.what]}",
            step=shown,
            pieces=self._started(request, self._files(directory), asker),
        )

    def _started(self, request: dict[str, Any], files: AttemptFiles, asker: Asker | None) -> Pieces:
        with ExitStack() as turn:
            turn.enter_context(self._turns.turn(asker, meanwhile=self._end_slow))
            try:
                directory = turn.enter_context(files.local(request["step"]))
            except OSError as error:
                raise Conflict(
                    f"{files.directory} cannot be read here: {error}. Make room on this server's disk, and ask again"
                ) from None
            with tempfile.TemporaryFile() as given:
                given.write(json.dumps({**request, "directory": str(directory)}).encode())
                given.seek(0)
                said = turn.enter_context(tempfile.TemporaryFile())
                program = subprocess.Popen(
                    [sys.executable, "-m", "engine.runtime.export"],
                    stdin=given,
                    stdout=subprocess.PIPE,
                    stderr=said,
                    env={**inherited(), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
                    cwd=SOURCE,
                    start_new_session=True,
                )
            found = Pieces(program, said, turn.pop_all())
            self._given.add(found)
            return found

    def _end_slow(self) -> None:
        now_s = time.monotonic()
        for each in list(self._given):
            each.end_if_slow(now_s)


def _attempts(session: Session, job: models.Job) -> list[models.Attempt]:
    """Oldest first."""
    wanted = select(models.Attempt).where(models.Attempt.job_id == job.id)
    return list(session.scalars(wanted.order_by(models.Attempt.number)))


def _checkpoints(attempts: list[models.Attempt], files: FilesOf) -> Checkpoints:
    if not attempts:
        return Checkpoints(items=[], end=None)
    last = attempts[-1]
    items = [
        Checkpoint(
            step=one.step,
            attempt=_made_by(attempts, one.written_unix_ns),
            written_at=moment(one.written_unix_ns),
            bytes=one.bytes,
        )
        for one in files(last.directory).checkpoints()
    ]
    return Checkpoints(items=items, end=_ended(last, files) if last.state == State.SUCCEEDED else None)


def _nothing(attempts: list[models.Attempt], files: FilesOf) -> str:
    """Why there is no model of a job, and the remedy."""
    last = attempts[-1] if attempts else None
    if last is not None and not files(last.directory).there():
        return (
            f"this server does not see {last.directory}, where attempt {last.number} has its files, nor the job's"
            " checkpoints beside it: they are on another machine's disk, or were removed. Ask the server that ran the"
            " job, or let this one see that disk under the same name"
        )
    if last is not None and last.state == State.SUCCEEDED:
        return (
            f"the job has succeeded, and what it ended with is no longer in {last.directory}: its summary is missing or"
            " cannot be read. Put its files back, or run the job again"
        )
    return (
        "the job has no checkpoint, and has not succeeded: there is no model of it yet. With checkpoint.every_steps"
        " there is one while it trains"
    )


def _made_by(attempts: list[models.Attempt], written_unix_ns: int) -> int | None:
    """The attempt that ran then."""
    return max((a.number for a in attempts if a.created_unix_ns <= written_unix_ns), default=None)


def _ended(attempt: models.Attempt, files: FilesOf) -> ModelEnd | None:
    """None where nothing is left of it."""
    steps = files(attempt.directory).ended_steps()
    return None if steps is None else ModelEnd(step=steps, attempt=attempt.number)
