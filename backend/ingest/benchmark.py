"""How fast does ingest take events? Whole batches through `accept` into a SQLite file: decoding, raw batch,
rollups, notice, commit. The load is 20 layers of 14 events per step, five steps per batch.

Run: `python -m backend.ingest.benchmark`.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
from sqlalchemy.orm import Session

from backend.db import Database, uuid7
from backend.db.engine import sqlite_url
from backend.db.models import Attempt, Job
from backend.ingest.accept import accept
from backend.ingest.tokens import new_token, token_sha256
from engine.benchmarks.harness.report import Report, arguments
from engine.telemetry.batch import Batch, LinkInfo, encode
from engine.telemetry.events import EVENT, STEP, Kind, Track
from engine.telemetry.spread import LinkBins
from engine.telemetry.totals import event_totals

LAYERS, STEPS_PER_BATCH, STEP_NS = 20, 5, 50_000_000
KINDS = [Kind.WAIT, Kind.FORWARD, Kind.BACKWARD, Kind.UPDATE, *[Kind.SEND, Kind.RECEIVE] * 5]
TRACKS = {Kind.SEND: Track.SEND, Kind.RECEIVE: Track.RECEIVE}


def batch(attempt: int, sequence: int) -> bytes:
    """Five steps of one worker, as its recorder would write them."""
    per_step = LAYERS * len(KINDS)
    jitter = np.random.default_rng(sequence)
    index = np.arange(STEPS_PER_BATCH * per_step)
    events = np.zeros(len(index), EVENT)
    events["step"] = sequence * STEPS_PER_BATCH + index // per_step
    events["layer"] = index // len(KINDS) % LAYERS
    events["kind"] = np.array(KINDS)[index % len(KINDS)]
    events["track"] = np.array([TRACKS.get(kind, Track.COMPUTE) for kind in KINDS])[index % len(KINDS)]
    events["start"] = sequence * STEPS_PER_BATCH * STEP_NS + index * (STEP_NS // per_step)
    events["end"] = events["start"] + jitter.integers(300_000, 900_000, len(index))
    events["queued"] = events["start"] - jitter.integers(0, 1_000_000, len(index))
    events["bytes"] = np.where(np.isin(events["kind"], (Kind.SEND, Kind.RECEIVE)), 200_000, 0)
    bins = LinkBins()
    bins.add_events(events)
    steps = np.zeros(STEPS_PER_BATCH, STEP)
    steps["step"] = sequence * STEPS_PER_BATCH + np.arange(STEPS_PER_BATCH)
    tables = {"events": events, "steps": steps, "totals": event_totals(events), "bins": bins.take()}
    links = (LinkInfo(interface="transport", host="here", rate_bps=None, rate_source="unknown"),)
    return encode(Batch(attempt=attempt, party=0, name="w", sequence=sequence, links=links, tables=tables))


def add_attempt(session: Session, token: str) -> int:
    job = Job(id=uuid7(), name="benchmark", spec={}, state="running", created_unix_ns=0)
    attempt = Attempt(
        job=job,
        number=1,
        state="running",
        parties=[],
        token_sha256=token_sha256(token),
        directory="",
        created_unix_ns=0,
    )
    session.add(attempt)
    session.flush()
    return attempt.id


def main() -> None:
    options = arguments(__doc__).parse_args()
    report = Report("ingest", "Telemetry into SQLite", "How fast does ingest take events?", options)
    batches = 40 if options.quick else 200
    report.plan([f"{batches} batches, one after another"], minutes=0.1 if options.quick else 0.5)
    token = new_token()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "trainyard.db"
        database = Database(sqlite_url(path))
        attempt = database.writer.run(lambda session: add_attempt(session, token))
        bodies = [batch(attempt, sequence) for sequence in range(batches)]
        begin = time.perf_counter()
        for body in bodies:
            accept(database, attempt, token, body)
        took = time.perf_counter() - begin
        database.close()
        stored = path.stat().st_size
    events = batches * STEPS_PER_BATCH * LAYERS * len(KINDS)
    report.table(
        "Ingest",
        ["events", "seconds", "events/s", "ms per batch", "bytes per event on the wire", "in the database"],
        [
            [
                events,
                took,
                round(events / took),
                took / batches * 1e3,
                sum(map(len, bodies)) / events,
                stored / events,
            ]
        ],
    )
    report.write()


if __name__ == "__main__":
    main()
