"""What must hold after a round. Every check answers what is wrong, in words; nothing wrong is no words."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from backend.chaos.lineage import Lineage
from backend.chaos.places import Places
from backend.chaos.round import Deeds
from backend.chaos.witness import Witness
from backend.client import Client
from backend.db.models import Attempt, Batch, Job, LayerTotal, StalenessCount, StepRow, Transition
from backend.executors import files, process
from backend.lifecycle import ATTEMPT, CURABLE, JOB, Reason, State
from backend.lifecycle.machine import Table
from engine import lab
from engine.telemetry.batch import check, decode

ORPHAN_S = 10.0
"""A process that lives longer than this after its attempt ended is an orphan."""
SEAL_S = 150.0
"""What cannot be sent from a node that is away is tried again after a minute."""
NOTHING_RAN = {Reason.LAUNCH_INTERRUPTED}


def orphans(lineage: Lineage) -> Iterator[str]:
    """Call it when every attempt has ended."""
    deadline = time.monotonic() + ORPHAN_S
    directories = [directory for _, directory in lineage.places.all()]
    while left := {*lineage.living(), *((d, p) for d in directories for p in process.marked(d))}:
        if time.monotonic() > deadline:
            yield from (f"orphan: process {p.pid} of {d}" for d, p in left)
            return
        time.sleep(0.1)


def hosts(lineage: Lineage) -> Iterator[str]:
    """Call it when every attempt has ended: no lab is left of it."""
    owners = lineage.owners()
    yield from (f"network namespace {name} is left" for name, owner in lab.owned() if owner in owners)


def devices(client: Client) -> Iterator[str]:
    """Nobody holds any, since nobody runs."""
    for device in client.devices():
        if device.job_id is not None:
            yield f"device {device.name} is still held by job {device.job_id} ({device.job_name})"


def ends(session: Session, job: Job, deeds: Deeds, places: Places) -> Iterator[str]:
    """The job and its attempts ended as what was done to them says."""
    for attempt in job.attempts:
        allowed = _allowed(job, attempt, deeds, places)
        if attempt.reason not in allowed:
            yield (
                f"attempt {attempt.number} of {job.name!r} is {attempt.state} ({attempt.reason}: {attempt.message}),"
                f" but may end with {', '.join(sorted(allowed))}"
            )
    last = job.attempts[-1] if job.attempts else None
    failures = sum(attempt.reason in CURABLE for attempt in job.attempts)
    if job.id in deeds.cancelled:
        if (job.state, job.reason) != (State.CANCELLED, Reason.CANCELLED):
            yield f"{job.name!r} was cancelled, but is {job.state} ({job.reason})"
    elif last is None or (job.state, job.reason, job.message) != (last.state, last.reason, last.message):
        yield f"{job.name!r} is {job.state} ({job.reason}), its last attempt is not"
    elif job.state == State.FAILED and failures != job.spec["retry"]["times"] + 1:
        yield f"{job.name!r} failed after {failures} failures, it had {job.spec['retry']['times']} retries"
    yield from _moves(session, job)


def _allowed(job: Job, attempt: Attempt, deeds: Deeds, places: Places) -> set[str]:
    """Reasons that this attempt may have ended for."""
    directory = Path(attempt.directory)
    allowed: set[str] = set()
    if job.id in deeds.cancelled:
        allowed.add(Reason.CANCELLED)
    if job.id in deeds.beside:
        allowed |= NOTHING_RAN
    if job.id in deeds.short:
        allowed.add(Reason.LAUNCH_FAILED)
    killed = deeds.killed.get(directory, set())
    if "node" in killed:
        allowed.add(Reason.NODE_LOST)
    if killed & {"supervisor", "watchdog"}:
        for place in places.of(directory):
            _, settled = files.read_progress(place)  # what the supervisor had written before it was killed
            allowed.add(Reason.SUPERVISOR_LOST if settled is None else settled.reason)
    else:
        allowed.add(Reason.COMPLETED)  # `recorded` counts the steps
        if "worker" in killed:
            allowed.add(Reason.PROCESS_KILLED)
        if "fork server" in killed:  # nobody else knows how its children ended
            allowed |= {Reason.PROCESS_KILLED, Reason.START_FAILED}
    return allowed


def _moves(session: Session, job: Job) -> Iterator[str]:
    """Every change of state that was written down is one of the table's, and leads to the state that it is in."""
    rows = session.scalars(select(Transition).where(Transition.job_id == job.id).order_by(Transition.id))
    of: dict[int | None, list[Transition]] = defaultdict(list)
    for row in rows:
        of[row.attempt_id].append(row)
    stands: dict[int | None, tuple[str, Table]] = {None: (job.state, JOB)}
    stands |= {attempt.id: (attempt.state, ATTEMPT) for attempt in job.attempts}
    for key, (state, table) in stands.items():
        known = {(before, after) for (before, _), after in table.items()}
        chain = [row.to_state for row in of[key]]
        steps = [(State(a), State(b)) for a, b in pairwise(chain)]
        if not chain or chain[-1] != state or not known.issuperset(steps):
            yield f"attempt {key} of {job.name!r} is {state}, its story is {' -> '.join(chain)}"


def recorded(engine: Engine, witness: Witness, job: Job, places: Places) -> Iterator[str]:
    """Everything that was acknowledged is there once; all that was spooled arrived; rollups are their batches'
    sums; who succeeded recorded every step of every worker."""
    for attempt in job.attempts:
        if not _sealed(engine, attempt, places):
            yield f"attempt {attempt.id} is not sealed after {SEAL_S:g} s"
        with Session(engine) as session:
            yield from _batches(session, witness, attempt)
        for place in places.of(Path(attempt.directory)):
            yield from (f"{left} never arrived" for left in place.glob("spool/*/*.batch"))
        with Session(engine) as session:
            yield from _rollups(session, job, attempt)


def _sealed(engine: Engine, attempt: Attempt, places: Places) -> bool:
    started = any((place / "ingest.json").exists() for place in places.of(Path(attempt.directory)))
    if attempt.reason in NOTHING_RAN or not started:  # on no node, if its launch was given up
        return True
    deadline = time.monotonic() + SEAL_S
    while True:
        with Session(engine) as session:
            if session.get_one(Attempt, attempt.id).sealed:
                return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)


def _batches(session: Session, witness: Witness, attempt: Attempt) -> Iterator[str]:
    query = select(Batch.party, Batch.sequence, Batch.body).where(Batch.attempt_id == attempt.id)
    held = {(attempt.id, party, sequence): body for party, sequence, body in session.execute(query)}
    for key, content in list(witness.acknowledged.items()):
        if key[0] == attempt.id and (key not in held or check(held[key]) != content):
            what = "other content" if key in held else "nothing"
            yield f"batch {key} (attempt, party, number) was acknowledged, but the server holds {what}"
    sequences: dict[int, list[int]] = defaultdict(list)
    for (_, party, sequence), body in sorted(held.items()):
        sequences[party].append(sequence)
        if decode(body).name == "lost":
            yield f"batch {sequence} of party {party} of attempt {attempt.id} was torn"
    for party, numbers in sequences.items():
        if numbers != list(range(len(numbers))):
            yield f"party {party} of attempt {attempt.id} has batches {numbers}: there is a gap"


def _rollups(session: Session, job: Job, attempt: Attempt) -> Iterator[str]:
    batches = [decode(b) for b in session.scalars(select(Batch.body).where(Batch.attempt_id == attempt.id))]
    steps = sorted((int(s), b.party) for b in batches for s in b.table("steps")["step"])
    rows = select(StepRow.step, StepRow.party).where(StepRow.attempt_id == attempt.id)
    if sorted((step, party) for step, party in session.execute(rows)) != steps:
        yield f"attempt {attempt.id}: its rows of steps are not those of its batches"
    sums = select(func.sum(LayerTotal.count), func.sum(LayerTotal.bytes)).where(
        LayerTotal.attempt_id == attempt.id
    )
    found = tuple(value or 0 for value in session.execute(sums).one())
    sent = tuple(sum(int(b.table("totals")[name].sum()) for b in batches) for name in ("count", "bytes"))
    if found != sent:
        yield f"attempt {attempt.id}: totals of {found} (events, bytes), its batches say {sent}"
    of_attempt = StalenessCount.attempt_id == attempt.id
    counted = int(session.scalar(select(func.sum(StalenessCount.count)).where(of_attempt)) or 0)
    if counted != (applied := sum(int(b.table("staleness")["count"].sum()) for b in batches)):
        yield f"attempt {attempt.id}: staleness of {counted} contributions, its batches say {applied}"
    if attempt.state == State.SUCCEEDED:
        workers, length = job.spec["cluster"]["workers"], job.spec["training"]["steps"]
        if steps != [(step, worker) for step in range(length) for worker in range(workers)]:
            yield f"attempt {attempt.id} succeeded with {len(steps)} steps of {workers} x {length}"
