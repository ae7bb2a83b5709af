"""The scheduler at the edge: looks at the database and the executor, and does what was decided.

One thread. It sleeps until something is submitted or cancelled; while attempts run it looks at them a few
times a second. All that it knows is in the database and in the attempts' directories, so a new server simply
goes on: the first pass after a start is like any other. Of several servers on one database each places jobs on its own
devices and follows what it placed, or took from one that is gone (`membership.py`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.db import MISSED, Database
from backend.db.models import Attempt, Notice
from backend.errors import SurroundingsError
from backend.executors.base import Ended, Executor, Handle, Running
from backend.lifecycle import ENDED, Reason, State
from backend.scheduler import changes, snapshot
from backend.scheduler.alone import Alone
from backend.scheduler.decide import Demand, Inventory, Occupant, decide
from backend.scheduler.drain import Drain
from backend.scheduler.instructions import Preempt, Refuse, Start, Wait
from backend.scheduler.maintenance import KIND as MAINTENANCE
from backend.scheduler.membership import QUEUE, LeaseLostError
from backend.scheduler.next_look import next_look
from backend.scheduler.start import OpenSecrets, Starter, no_secrets
from backend.scheduler.usage import Usage

POLL_S = 0.2
STOP_S = 15.0
"""How long a cancelled attempt may take to end its processes before it is ended by force."""
SEND_S = 45.0
"""The same once its processes have ended and only telemetry is still being sent."""
OUTAGE_S = 1.0
"""How often an executor that can launch nothing is asked whether it can."""
CLOCK_S = 60.0
"""The longest sleep before a moment that is known: the wall clock, which says when it is due, may be set."""
logger = logging.getLogger(__name__)


class Scheduler:
    """Places queued jobs, follows their attempts, and ends those that were cancelled."""

    def __init__(
        self,
        *,
        database: Database,
        executor: Executor,
        inventory: Inventory,
        membership: Alone,
        data_dir: Path,
        url: str,
        paused: bool = False,
        secrets: OpenSecrets = no_secrets,
    ) -> None:
        """`membership` begins and ends with the scheduler. `data_dir` receives the attempts' directories; `url` is this
        server's address, for telemetry. While `paused` nothing is placed; attempts of an earlier life are followed as
        ever. `secrets` opens a user's for a job of theirs."""
        self.inventory = inventory
        self._paused = paused
        self._database = database
        self._executor = executor
        self._membership = membership
        self._starter = Starter(database, executor, membership, data_dir.absolute(), url, secrets)
        self._drain = Drain(url)
        self._queue = snapshot.Queue()
        self._usage = Usage()
        self._url = url
        self._redirected: set[int] = set()
        """Attempts that know this server's address."""
        self._asked: dict[int, float] = {}
        self._preempted: set[int] = set()
        """Attempts that have been asked to end with a checkpoint."""
        self._trouble: dict[int, str] = {}
        self._wake = threading.Event()
        self._closed = False
        self._aside: dict[str, Occupant] = {}
        self._due = True
        """The queue has to be looked at: something was submitted or ended since."""
        self._look_unix_ns: int | None = None
        """When to look at the queue even where nothing happens: a job that backs off is due, or may be asked to make
        room."""
        self._outage: str | None = None
        """Why the executor could launch nothing when it was asked last."""
        self._left = False
        """Attempts were taken from other lives, or servers: some may have ended and left something to do."""
        self._drained: set[int] = set()
        self._unlisten: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._loop, name="scheduler", daemon=True)

    def start(self) -> None:
        """Begin; attempts of an earlier server's life are found again."""
        self._membership.listen(self._taken)
        self._membership.start()
        self._unlisten = self._database.writer.listen_afar(self._heard)
        self._thread.start()

    def wake(self) -> None:
        """Something was submitted or cancelled: look now. Call it after the commit, from any thread."""
        self._wake.set()

    @contextmanager
    def aside(self, what: str, device: str | None = None) -> Iterator[None]:
        """While it lasts, something that is no job runs: whoever runs alone waits for its end, and so does who needs
        `device`, where it has one. One at a time. A pass that is under way may still place somebody."""
        self._aside = {device or "": Occupant(job_id="", job_name=what)}
        try:
            yield
        finally:
            self._aside = {}
            self.wake()

    def close(self) -> None:
        """Stop looking. Attempts go on; the next server finds them."""
        self._closed = True
        unlisten, self._unlisten = self._unlisten, lambda: None
        unlisten()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        self._membership.close()

    def _heard(self, notices: list[Notice]) -> None:
        """Another server has stored a job, or cancelled one, or devices that both have are drained, or given back."""
        if any(notice.kind in {"job", MAINTENANCE, MISSED} for notice in notices):
            self.wake()

    def _taken(self) -> None:
        self._left = True
        self.wake()

    # --- the thread ---

    def _loop(self) -> None:
        trouble = None
        while not self._closed:
            pause: float | None = POLL_S
            try:
                pause = self._pass()
                trouble = None
            except Exception as error:  # a full disk, a locked database: jobs must go on when it is over
                if trouble != repr(error):
                    # A reason that stands by itself needs no trace of ours.
                    trace = None if isinstance(error, SurroundingsError) else error
                    logger.error(
                        "the scheduler could not finish a pass: %s; it tries again", error, exc_info=trace
                    )
                trouble = repr(error)
            if self._wake.wait(pause):
                self._wake.clear()
                self._due = True

    def _pass(self) -> float | None:
        """In how many seconds to look again, unasked; None: not before something happens."""
        if self._left:
            self._left = False
            try:
                self._clear_up()
            except Exception:
                self._left = True
                raise
        with self._database.read() as session:
            active = snapshot.active_attempts(session, self._membership.mine)
        for attempt in active:
            try:
                self._follow(attempt)
                self._trouble.pop(attempt.id, None)
            except LeaseLostError as error:
                logger.warning("%s", error)
            except Exception as error:  # what one attempt's files hold must not hold up the others
                if self._trouble.get(attempt.id) != repr(error):
                    logger.exception("attempt %d cannot be followed; trying again", attempt.id)
                self._trouble[attempt.id] = repr(error)
        if self._look_unix_ns is not None and time.time_ns() >= self._look_unix_ns:
            self._due = True
        outage = self._executor.outage()
        if outage != self._outage:
            self._outage, self._due = outage, True
        if self._due:
            self._due = self._place()
        if self._due or active:
            return POLL_S
        if outage is not None:
            return OUTAGE_S
        if self._look_unix_ns is None:
            return None
        return min(max(0.0, (self._look_unix_ns - time.time_ns()) / 1e9), CLOCK_S)

    def _place(self) -> bool:
        """Decide, and do it. Answers whether that changed what the others wait for."""
        now = time.time_ns()
        with self._database.read() as session:
            ahead = self._membership.ahead_ns(session)
            waiting = self._queue.read(session, self._membership.place, now)
            state = snapshot.state(
                session,
                waiting,
                self.inventory,
                self._membership.place,
                self._aside,
                self._queue.learned,
                self._usage,
                paused=self._paused,
                outage=self._outage,
                ahead_ns=ahead,
                now_unix_ns=now,
            )
            ended = snapshot.maintenance_is_over(session, now - ahead)
            looks = snapshot.next_retry(session, now), next_look(state)
            self._look_unix_ns = min((at for at in looks if at is not None), default=None)
        if ended:
            self._database.writer.run(partial(changes.end_maintenance, now_unix_ns=now - ahead))
        said = {queued.job.id: queued.said for queued in waiting}
        demands = {queued.job.id: queued.job.demand for queued in waiting}
        says = self._membership.has(QUEUE)
        changed, waits = False, [_for_race(one.job.id, one.elsewhere) for one in waiting if one.elsewhere]
        for job_id, error in () if self._paused else self._queue.unreadable.items():
            self._database.writer.run(partial(changes.unreadable, job_id=job_id, message=str(error)))
            changed = True
        for instruction in decide(state):
            match instruction:
                case Start():
                    self._starter.start(instruction)
                    changed = True
                case Wait():
                    waits.append(instruction)
                case Preempt():
                    room = partial(changes.make_room, instruction=instruction, mine=self._membership.mine)
                    changed |= self._database.writer.run(room)
                case Refuse():
                    if self._refuse(instruction, demands[instruction.job_id]):
                        changed = True
                    else:
                        waits.append(_for_another(instruction))
        # Each server knows its own devices, so two would correct each other for ever.
        if says and (new := [wait for wait in waits if said.get(wait.job_id) != wait.text]):
            self._database.writer.run(partial(changes.wait, instructions=new))
        return changed

    def _refuse(self, instruction: Refuse, demand: Demand) -> bool:
        """End a job that can run nowhere; whether it is so."""

        def write(session: Session) -> bool:
            if self._membership.elsewhere(session, demand) is not None:
                return False
            changes.refuse(session, instruction)
            return True

        return self._database.writer.run(write)

    def _follow(self, attempt: Attempt) -> None:
        handle = changes.handle_of(attempt) or self._find(attempt)
        if handle is None:
            return
        report = self._executor.poll(handle)
        if isinstance(report, Ended):
            self._write(attempt.id, partial(changes.close, attempt_id=attempt.id, end=report))
            self._asked.pop(attempt.id, None)
            self._redirected.discard(attempt.id)
            self._preempted.discard(attempt.id)
            self._due = True
            if not report.sealed:
                self._drained.add(attempt.id)
                self._drain.add(self._executor.files(attempt.directory))
        elif attempt.state == State.STOPPING_CANCELLED:
            self._press(attempt.id, handle, report)
        elif changes.events_of(State(attempt.state), report):
            self._write(attempt.id, partial(changes.progress, attempt_id=attempt.id, report=report))
        if isinstance(report, Ended):
            return
        if attempt.state == State.PREEMPTING and attempt.id not in self._preempted:
            self._executor.preempt(handle)
            self._preempted.add(attempt.id)
        if isinstance(report, Running) and attempt.id not in self._redirected:  # maybe from an earlier life
            self._executor.redirect(handle, self._url)
            self._redirected.add(attempt.id)

    def _clear_up(self) -> None:
        """Of attempts that had ended when they were taken: what runs still ends (somebody cancelled it while nobody saw
        it), and what lies in their spools is sent."""
        left = select(Attempt).where(
            self._membership.mine, Attempt.state.in_(ENDED), Attempt.sealed.is_(False)
        )
        self._redirected.clear()
        with self._database.read() as session:
            attempts = session.scalars(left).all()
        for attempt in attempts:
            if attempt.id not in self._drained:
                self._drained.add(attempt.id)
                if (handle := changes.handle_of(attempt)) is not None:
                    self._executor.stop(handle, force=True)
                self._drain.add(self._executor.files(attempt.directory))

    def _write(self, attempt_id: int, write: Callable[[Session], None]) -> None:
        """Raises LeaseLostError where the attempt is another server's by now."""
        self._membership.run_for(attempt_id, write)

    def _find(self, attempt: Attempt) -> Handle | None:
        """An earlier server's life ended between placing and launching: did it start, or not?"""
        handle = self._executor.find(Path(attempt.directory))
        if handle is None:
            self._write(attempt.id, partial(changes.interrupted, attempt_id=attempt.id))
            self._due = True
        else:
            self._write(attempt.id, partial(changes.launched, attempt_id=attempt.id, handle=handle))
        return handle

    def _press(self, attempt_id: int, handle: Handle, report: Running) -> None:
        """Ask once; when that does not help, do not ask."""
        asked = self._asked.get(attempt_id)
        if asked is None:
            self._asked[attempt_id] = time.monotonic()
            self._executor.stop(handle)
        elif time.monotonic() - asked > (SEND_S if report.phase == "stopping" else STOP_S):
            self._executor.stop(handle, force=True)


def _for_race(job_id: str, server: str) -> Wait:
    """A job of a race whose other jobs ran at another server."""
    text = f"it waits for another server ({server}), where the other jobs of its race ran"
    return Wait(job_id=job_id, position=1, reason=Reason.WAITING_FOR_DEVICES, text=text, blocked_by=())


def _for_another(refused: Refuse) -> Wait:
    """A job that only another server can place."""
    text = "it waits for another server: the one that says this has too few devices for it"
    return Wait(
        job_id=refused.job_id, position=1, reason=Reason.WAITING_FOR_DEVICES, text=text, blocked_by=()
    )
