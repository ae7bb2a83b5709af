"""A database as after months of use: thousands of jobs, and one whose events go into the millions. For `benchmark.py`.

The large job's events go through `backend.ingest.accept`, as its supervisor would send them; the other jobs are
rows of finished jobs with their steps.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sqlalchemy import insert
from sqlalchemy.orm import Session

from backend.db import Database, uuid7
from backend.db.models import Attempt, Job, Race, RaceRun, StepRow, Transition
from backend.ingest import new_token, token_sha256
from backend.ingest.accept import accept
from backend.ingest.upsert import upsert
from backend.races.spec import RaceSpec
from engine.launch import slug
from engine.plan.description import LayerDescription, ModelDescription, ParameterDescription
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain, to_plain
from engine.strategies import build_plan
from engine.telemetry.batch import Batch, LinkInfo, encode
from engine.telemetry.events import EVENT, METRIC, STEP, Kind, Track
from engine.telemetry.spread import LinkBins
from engine.telemetry.totals import event_totals

WORKERS = 2
SLICES = 4
"""Messages of a layer in each direction."""
STEP_NS = 500_000_000
KINDS = [Kind.WAIT, Kind.FORWARD, Kind.BACKWARD, Kind.UPDATE, *[Kind.SEND] * SLICES, *[Kind.RECEIVE] * SLICES]
TRACKS = {Kind.SEND: Track.SEND, Kind.RECEIVE: Track.RECEIVE}
PER_LAYER = len(KINDS)
STRATEGIES = ("p3", "parameter-server", "ring-allreduce", "ring-allreduce-overlap")
ENDS = ("succeeded", "succeeded", "succeeded", "failed", "cancelled")
RACED = {0: (0, 12, 16), 1: (1, 5, 17)}
"""Of every twenty of the other jobs: those that are the rounds of a race's first and second member. They are all that
have succeeded under the first two of STRATEGIES."""
OTHER_STEPS = 40
"""Of every other job."""
MOST_ROWS = 200_000
"""In one statement."""
LOG_LINES = 100_000


@dataclass(frozen=True, kw_only=True)
class Large:
    """The job with millions of events, still running."""

    job_id: str
    attempt: int
    token: str
    layers: int
    steps: int
    """Recorded so far."""


def described(layers: int) -> ModelDescription:
    """A model of so many equal layers."""
    return ModelDescription(
        name="mlp",
        layers=tuple(
            LayerDescription(
                name=f"blocks.{index // 10}.layer{index % 10}",
                kind="Linear",
                index=index,
                parameters=(
                    ParameterDescription(name=f"blocks.{index}.weight", shape=(200_000,), dtype="float32"),
                ),
                forward_flops=400_000,
                output_bytes=4_000,
            )
            for index in range(layers)
        ),
        samples=50_000,
    )


def job_row(name: str, layers: int, strategy: str, steps: int, **columns: object) -> dict[str, object]:
    """The columns of a job with its plan."""
    spec = from_plain(
        JobSpec,
        {
            "name": name,
            "model": {"name": "mlp"},
            "data": {"name": "digits"},
            "strategy": {"name": strategy},
            "cluster": {"workers": WORKERS},
            "training": {"steps": steps, "global_batch": 64},
            "network": {"rate": "1Gbit"},
        },
    )
    described_as = described(layers)
    return {
        "name": name,
        "spec": to_plain(spec),
        "plan": to_plain(build_plan(spec, described_as)),
        "description": described_as.to_dict(),
    } | columns


def attempt_row(
    job_id: str, state: str, token: str, created: int, parties: list[str], directory: str = "/nowhere"
) -> Attempt:
    return Attempt(
        job_id=job_id,
        number=1,
        state=state,
        parties=parties,
        token_sha256=token_sha256(token),
        directory=directory,
        created_unix_ns=created,
        epoch_unix_ns=created,
    )


def worker_step(large: Large, party: int, step: int, sequence: int, part: tuple[int, int] = (0, 1)) -> bytes:
    """One step of one worker as its recorder would write it, or part `i` of `n` of its layers."""
    i, n = part
    own = np.arange(large.layers * i // n, large.layers * (i + 1) // n)
    layer = np.repeat(own, PER_LAYER)
    kind = np.tile(np.array(KINDS), len(own))
    begin = step * STEP_NS
    each = STEP_NS // (4 * large.layers)
    # Forward in order of the layers, then backward in reverse; a layer's bytes travel while others compute.
    back = begin + STEP_NS // 4 + (large.layers - 1 - layer) * 2 * each
    events = np.zeros(len(layer), EVENT)
    events["step"], events["layer"], events["kind"] = step, layer, kind
    events["track"] = np.tile(np.array([TRACKS.get(k, Track.COMPUTE) for k in KINDS]), len(own))
    moves = np.isin(kind, (Kind.SEND, Kind.RECEIVE))
    place = np.tile(np.arange(PER_LAYER), len(own))
    events["unit"] = np.where(moves, layer * SLICES + place % SLICES, -1)
    events["peer"] = np.where(moves, 1 - party, -1)
    events["priority"] = layer
    start = np.where(np.isin(kind, (Kind.WAIT, Kind.FORWARD)), begin + layer * each, back)
    start += np.where(kind == Kind.FORWARD, each // 8, 0) + np.where(moves, place % SLICES * each, 0)
    events["start"] = start
    events["queued"] = np.where(moves, back, -1)
    events["end"] = start + np.where(kind == Kind.WAIT, each // 8, each // 2)
    events["bytes"] = np.where(moves, 200_000, 0)
    tables = {"events": events, "totals": event_totals(events)}
    if i == n - 1:
        steps = np.zeros(1, STEP)
        steps["step"], steps["start"], steps["end"], steps["samples"] = step, begin, begin + STEP_NS, 32
        steps["loss"], steps["exposed"] = 2.3 * 0.999**step, large.layers * (each // 8)
        steps["compute"] = STEP_NS * 7 // 8
        tables["steps"] = steps
        if party == 0 and step % 50 == 0:
            metrics = np.zeros(1, METRIC)
            metrics["step"], metrics["time"], metrics["value"] = step, begin + STEP_NS, 1 - 0.99**step
            tables["metrics"] = metrics
    bins = LinkBins()
    bins.add_events(events)
    tables["bins"] = bins.take()
    links = (LinkInfo(interface="transport", host=f"h{party}", rate_bps=10**9, rate_source="shaped"),)
    return encode(
        Batch(
            attempt=large.attempt,
            party=party,
            name=f"worker {party}",
            sequence=sequence,
            metrics=("test_accuracy",),
            links=links,
            tables=tables,
        )
    )


def live(large: Large, parts: int) -> Iterator[tuple[int, bytes]]:
    """(events, batch) of the steps that follow what is recorded, both workers' in turn, `parts` batches a step."""
    step, sequence = large.steps, large.steps
    while True:
        for part in range(parts):
            for party in range(WORKERS):
                body = worker_step(large, party, step, sequence, (part, parts))
                yield large.layers * PER_LAYER // parts, body
            sequence += 1
        step += 1


def write_logs(directory: Path, parties: list[str]) -> None:
    """What each party printed: some megabytes."""
    (directory / "logs").mkdir(parents=True)
    for party in parties:
        lines = (f"{party}: step {n}, loss {2.3 * 0.999**n:.4f}, für später\n" for n in range(LOG_LINES))
        (directory / "logs" / f"{slug(party)}.log").write_text("".join(lines), encoding="utf-8")


def add_large(
    database: Database, layers: int, events: int, *, home: Path | None = None, baseline: str | None = None
) -> Large:
    """The large job: running, with about so many events recorded; its processes' logs in a folder of `home`, where
    that is given; compared with `baseline`."""
    now = time.time_ns()
    steps = max(1, round(events / (layers * PER_LAYER * WORKERS)))
    started = now - steps * STEP_NS
    row = job_row(
        "the large one", layers, "p3", 10 * steps, id=uuid7(), state="running", created_unix_ns=started,
        queued_unix_ns=started, started_unix_ns=started, baseline_id=baseline,
    )  # fmt: skip
    token, parties = new_token(), [f"worker {n}" for n in range(WORKERS)]
    directory = home / str(row["id"]) / "1" if home else Path("/nowhere")
    if home:
        write_logs(directory, parties)

    def write(session: Session) -> int:
        session.execute(insert(Job), [row])
        attempt = attempt_row(str(row["id"]), "running", token, started, parties, str(directory))
        session.add(attempt)
        session.flush()
        return attempt.id

    large = Large(
        job_id=str(row["id"]), attempt=database.writer.run(write), token=token, layers=layers, steps=steps
    )
    for step in range(steps):
        for party in range(WORKERS):
            accept(database, large.attempt, token, worker_step(large, party, step, step))
    return large


def add_others(database: Database, count: int) -> list[str]:
    """Finished jobs, each with its attempt, steps and history; every tenth is compared with the one before."""
    now = time.time_ns()
    rows = [job_row("a job", 20, strategy, OTHER_STEPS) for strategy in STRATEGIES]
    jobs: list[dict[str, object]] = []
    attempts: list[Attempt] = []
    steps: list[tuple[object, ...]] = []
    transitions: list[dict[str, object]] = []
    for i in range(count):
        started = now - (count - i + 1) * 60_000_000_000
        id_ = uuid7()
        state = ENDS[i % len(ENDS)]
        jobs.append(
            rows[i % len(rows)]
            | {
                "id": id_,
                "name": f"job {i}",
                "state": state,
                "reason": {"succeeded": "completed", "failed": "worker_failed"}.get(state, state),
                "baseline_id": jobs[-1]["id"] if i % 10 == 9 else None,
                "created_unix_ns": started,
                "queued_unix_ns": started,
                "started_unix_ns": started,
                "ended_unix_ns": started + 30_000_000_000,
                "revision": 1,
            }
        )
        attempts.append(attempt_row(id_, state, str(i), started, ["worker 0", "worker 1"]))
        transitions += [
            {"job_id": id_, "from_state": before, "to_state": after, "at_unix_ns": started}
            for before, after in ((None, "queued"), ("queued", "running"), ("running", state))
        ]

    def write(session: Session) -> None:
        for part in range(0, count, 500):
            session.execute(insert(Job), jobs[part : part + 500])
        session.execute(insert(Transition), transitions)
        session.add_all(attempts)
        session.flush()
        for attempt in attempts:
            steps.extend(
                (
                    attempt.id,
                    step,
                    party,
                    step * 10**8,
                    (step + 1) * 10**8,
                    32,
                    2.0 / (step + 1),
                    10**7,
                    9 * 10**7,
                    0,
                )
                for step in range(OTHER_STEPS)
                for party in range(WORKERS)
            )
        for part in range(0, len(steps), MOST_ROWS):
            upsert(session, StepRow, steps[part : part + MOST_ROWS], frozenset())

    database.writer.run(write, timeout_s=600)
    return [str(job["id"]) for job in jobs]


def add_races(database: Database, others: list[str]) -> list[str]:
    """Finished races of the other jobs: one of every twenty of them."""
    row = job_row("a race", 1, STRATEGIES[0], OTHER_STEPS)
    members = [{"strategy": STRATEGIES[member]} for member in RACED]
    spec = to_plain(from_plain(RaceSpec, {"job": row["spec"], "members": members}))
    found: list[str] = []

    def write(session: Session) -> None:
        for first in range(0, len(others) - 19, 20):
            race_id = uuid7()
            found.append(race_id)
            begun = session.get_one(Job, others[first]).created_unix_ns
            state = {
                "state": "finished",
                "created_unix_ns": begun,
                "ended_unix_ns": begun + 20 * 60_000_000_000,
            }
            session.add(Race(id=race_id, name=f"race {len(found)}", spec=spec, **state))
            session.flush()
            session.add_all(
                RaceRun(
                    race_id=race_id, member=member, condition=0, round=number, job_id=others[first + place]
                )
                for member, places in RACED.items()
                for number, place in enumerate(places)
            )

    database.writer.run(write, timeout_s=600)
    return found
