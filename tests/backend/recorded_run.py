"""Runs that figures are tried on: two workers and a server, computed on a virtual clock, recorded and
ingested for real.

Layers grow towards the end as in VGG, so that under `fifo` the fully-connected layers' bytes are in front of
conv1's; under priorities (slices, lowest layer first) they are not.
"""

from __future__ import annotations

import heapq
import uuid
from dataclasses import dataclass, field

import numpy as np

from backend.db import Database
from backend.db.models import Attempt, Job
from backend.ingest import accept, token_sha256
from engine.telemetry.detail import DetailPolicy
from engine.telemetry.events import Kind, Track
from engine.telemetry.memory import RESIDENT, series
from engine.telemetry.recorder import Recorder

MS = 1_000_000
LAYERS = (
    "features.conv1",
    "features.conv2",
    "features.conv3",
    "features.conv4",
    "classifier.fc5",
    "classifier.fc6",
)
FORWARD_MS = (5.0, 4.0, 3.0, 3.0, 1.0, 0.5)
SIZES = (40_000, 80_000, 160_000, 240_000, 900_000, 200_000)
TOKEN = "figures"
SERVER = 2


@dataclass
class Run:
    """One job: what was recorded, besides what the database has of it."""

    job_id: str
    attempt: int
    events: list[dict[str, int]] = field(default_factory=list)
    """Every event's arguments, with its party."""
    starts: dict[tuple[int, int], int] = field(default_factory=dict)
    """Start of forward by (party, step)."""
    parts: dict[tuple[int, int], dict[str, float]] = field(default_factory=dict)
    """What each step consisted of, by (party, step): ms of compute, exposed and input."""


def add_job(database: Database, name: str, **changes: object) -> tuple[str, int]:
    """A job, which has succeeded unless its `state` says otherwise, and its attempt; `changes` are of the
    specification's parts, e.g. `workers`, `batch`,
    `strategy`; or its plan's `consistency`, of which `period` may be given alone."""
    job_id = str(uuid.uuid4())
    started = int(changes.get("started", 0))  # type: ignore[call-overload]
    period = {"period": changes["period"]} if "period" in changes else None
    consistency = changes.get("consistency", period)
    spec = {
        "name": name,
        "model": {"name": changes.get("model", "vgg-small"), "options": {}},
        "data": {"name": "digits"},
        "strategy": {"name": changes.get("strategy", name)},
        "cluster": {"workers": changes.get("workers", 2), "threads": 1, "device": "cpu"},
        "network": {"rate": "300Mbit"},
        "training": {"global_batch": changes.get("batch", 64), "steps": 40},
        "fidelity": changes.get("fidelity", "train"),
        "rehearsal": changes.get("rehearsal", {"scale": 15.0}),
        "faults": changes.get("faults", {}),
    }

    def write(session):  # type: ignore[no-untyped-def]
        layers = [{"name": layer, "index": i} for i, layer in enumerate(LAYERS)]
        session.add(
            Job(
                id=job_id,
                name=name,
                spec=spec,
                plan=None if consistency is None else {"consistency": consistency},
                description={"name": "vgg-small", "layers": layers},
                state=changes.get("state", "succeeded"),
                created_unix_ns=started,
                queued_unix_ns=started,
                started_unix_ns=started,
                ended_unix_ns=None if changes.get("state") == "running" else started + 100,
                baseline_id=changes.get("baseline"),
            )
        )
        session.flush()
        attempt = Attempt(
            job_id=job_id,
            number=1,
            state="succeeded",
            parties=["worker 0", "worker 1", "server 0"],
            devices=["cpu", "cpu"],
            token_sha256=token_sha256(TOKEN),
            epoch_unix_ns=0,
            directory="",
            created_unix_ns=started,
        )
        session.add(attempt)
        session.flush()
        return attempt.id

    return job_id, database.writer.run(write)


def queue(ready: list[float], rank: list[float], took: list[float]) -> list[tuple[float, float]]:
    """(start, end) of each transfer on one serial link: of those that are ready, the lowest rank goes
    first."""
    order = sorted(range(len(ready)), key=lambda i: ready[i])
    waiting: list[tuple[float, int]] = []
    out: list[tuple[float, float]] = [(0.0, 0.0)] * len(ready)
    now, i = 0.0, 0
    while i < len(order) or waiting:
        if not waiting:
            now = max(now, ready[order[i]])
        while i < len(order) and ready[order[i]] <= now:
            heapq.heappush(waiting, (rank[order[i]], order[i]))
            i += 1
        _, job = heapq.heappop(waiting)
        out[job] = (now, now + took[job])
        now += took[job]
    return out


def record_run(  # noqa: PLR0912, PLR0915 (one virtual clock, told from top to bottom)
    database: Database,
    name: str,
    *,
    priority: bool = False,
    steps: int = 12,
    slices: int = 1,
    rate_bps: float = 300e6,
    slow: float = 1.0,
    input_ms: float = 0.0,
    idle_ms: float = 0.0,
    link_samples: bool = True,
    detail: str = "all",
    **changes: object,
) -> Run:
    """Compute, record and ingest a run. `slices` cuts every layer, `slow` stretches worker 1's
    computation. Every step waits `input_ms` for its batch, worker 1's twice as long, and is followed by `idle_ms`."""
    job_id, attempt = add_job(database, name, **changes)
    run = Run(job_id, attempt)
    names = ["worker 0", "worker 1", "server 0"]
    recorders = [
        Recorder(
            p, names[p], lambda: 0, None, attempt=attempt, flush_s=3600, detail=DetailPolicy(mode=detail)
        )  # type: ignore[arg-type]
        for p in range(3)
    ]
    random = np.random.default_rng(0)
    units = [(layer, unit) for layer in range(len(LAYERS)) for unit in range(slices)]
    size = [SIZES[layer] // slices for layer, _ in units]
    took = [s * 8e3 / rate_bps for s in size]  # ms
    version = {(w, u): 0.0 for w in (0, 1) for u in range(len(units))}
    clock = [10.0, 10.3]

    def event(party: int, kind: Kind, track: Track, **values: float) -> None:
        for key in ("start", "end", "queued"):
            if key in values:
                values[key] = round(values[key] * MS)
        row = {key: int(value) for key, value in values.items()}
        recorders[party].event(kind, track, **row)  # type: ignore[arg-type]
        run.events.append({"party": party, "kind": int(kind), "track": int(track), **row})

    for step in range(steps):
        arrive: dict[int, list[float]] = {}
        for w in (0, 1):
            began = now = clock[w]
            run.starts[w, step] = round(began * MS)
            factor = (slow if w else 1.0) * random.uniform(0.97, 1.03)
            exposed = compute = 0.0
            waited = (1 + w) * input_ms
            if waited:
                event(w, Kind.INPUT, Track.INPUT, step=step, start=now, end=now + waited)
                now += waited
            for layer, cost in enumerate(FORWARD_MS):
                need = max(version[w, u] for u, (own, _) in enumerate(units) if own == layer)
                if need > now:
                    event(w, Kind.WAIT, Track.COMPUTE, step=step, layer=layer, start=now, end=need)
                    exposed += need - now
                    now = need
                event(
                    w, Kind.FORWARD, Track.COMPUTE, step=step, layer=layer, start=now, end=now + cost * factor
                )
                now += cost * factor
                compute += cost * factor
            done = {}
            for layer in reversed(range(len(LAYERS))):
                cost = 2 * FORWARD_MS[layer] * factor
                event(w, Kind.BACKWARD, Track.COMPUTE, step=step, layer=layer, start=now, end=now + cost)
                now += cost
                compute += cost
                done[layer] = now
            clock[w] = now + idle_ms
            run.parts[w, step] = {"compute": compute, "exposed": exposed, "input": waited}
            ready = [done[layer] + 0.01 * unit for layer, unit in units]
            sent = queue(ready, [layer if priority else ready[u] for u, (layer, _) in enumerate(units)], took)
            for u, (start, end) in enumerate(sent):
                layer, unit = units[u]
                common = {"step": step, "layer": layer, "unit": unit, "priority": layer, "bytes": size[u]}
                event(w, Kind.SEND, Track.SEND, peer=SERVER, queued=ready[u], start=start, end=end, **common)
                event(
                    SERVER,
                    Kind.RECEIVE,
                    Track.RECEIVE,
                    peer=w,
                    queued=ready[u],
                    start=start,
                    end=end,
                    **common,
                )
                arrive.setdefault(u, []).append(end)
            recorders[w].step(
                step,
                start=run.starts[w, step],
                end=round(now * MS),
                samples=32,
                loss=2.3 * 0.97**step + random.uniform(0, 0.1),
                exposed=round(exposed * MS),
                compute=round(compute * MS),
                input=round(waited * MS),
            )
        back = [max(arrive[u]) + 0.15 for u in range(len(units))]
        for u, (layer, unit) in enumerate(units):
            event(
                SERVER,
                Kind.REDUCE,
                Track.SERVER,
                step=step,
                layer=layer,
                unit=unit,
                start=back[u] - 0.15,
                end=back[u] - 0.1,
            )
            event(
                SERVER,
                Kind.UPDATE,
                Track.SERVER,
                step=step,
                layer=layer,
                unit=unit,
                start=back[u] - 0.1,
                end=back[u],
            )
        for w in (0, 1):
            ready = [max(b, clock[w] - 50) for b in back]
            for u, (start, end) in enumerate(
                queue(ready, [layer if priority else ready[u] for u, (layer, _) in enumerate(units)], took)
            ):
                layer, unit = units[u]
                common = {"step": step, "layer": layer, "unit": unit, "priority": layer, "bytes": size[u]}
                event(SERVER, Kind.SEND, Track.SEND, peer=w, queued=ready[u], start=start, end=end, **common)
                event(
                    w,
                    Kind.RECEIVE,
                    Track.RECEIVE,
                    peer=SERVER,
                    queued=ready[u],
                    start=start,
                    end=end,
                    **common,
                )
                version[w, u] = end
        for w in (0, 1):
            recorders[w].metric(series(RESIDENT, names[w]), step, 1e8 + 1e6 * step + w)
        if step % 5 == 4:
            recorders[0].metric("test_accuracy", step, 0.99 - 0.6 * 0.9**step)
    finish = max(e["end"] for e in run.events)
    for party, recorder in enumerate(recorders):
        if link_samples:
            recorder.declare_link("transport", rate_bps=round(rate_bps), rate_source="shaped")
            _sample(recorder, [e for e in run.events if e["party"] == party], finish)
        recorder.close()
        for body in recorder.memory:
            accept(database, attempt, TOKEN, body)
    return run


def _sample(recorder: Recorder, events: list[dict[str, int]], finish: int) -> None:
    """The interface's counters every 10 ms: 4 % more than the layers' bytes, for headers."""
    times = np.arange(0, finish + 20 * MS, 10 * MS)
    moved = []
    for kind in (Kind.SEND, Kind.RECEIVE):
        own = [e for e in events if e["kind"] == kind]
        start, end, size = (np.array([e[k] for e in own], float) for k in ("start", "end", "bytes"))
        done = np.clip((times[:, None] - start) / (end - start), 0, 1)
        moved.append((done * size * 1.04).sum(axis=1).astype(np.int64))
    for time, tx, rx in zip(times.tolist(), *moved, strict=True):
        recorder.link("transport", time=time, tx_bytes=tx, rx_bytes=rx)
