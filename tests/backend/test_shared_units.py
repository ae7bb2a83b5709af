"""Units of several layers: every byte is under its own layer, and what is one event is named as the bucket."""

from __future__ import annotations

import uuid
from collections import Counter

import numpy as np
import pytest
from sqlalchemy.orm import Session

from backend.db import Database
from backend.db.models import Attempt, Job
from backend.figures.facts import bucket
from backend.figures.heatmap import heatmap
from backend.figures.link_bytes import read_links
from backend.figures.request import FigureRequest
from backend.figures.shared_units import shared_units
from backend.figures.source import BIN_ROW, Source
from backend.figures.timeline import timeline
from backend.figures.utilization import utilization
from backend.figures.why import Wait
from backend.ingest import accept, token_sha256
from backend.services import why
from engine.plan.plan import Order, Plan
from engine.plan.serde import to_plain
from engine.plan.units import cut
from engine.simulate.declared import declared, wire_bytes_by_layer
from engine.telemetry.events import Direction, Kind, Track
from tests.backend.figures_drawn import answer, traces
from tests.backend.full_recorder import full_recorder
from tests.plans import PLANNED, described, made_up, planned, resolved, ring

WORKERS = 3
TOKEN = "units"
MS = 1_000_000
BUCKETED = (
    "ring-allreduce",
    "ring-allreduce-overlap",
    "tree-allreduce",
    "late-multiply",
    "native-allreduce",
    "parameter-averaging",
    "diloco",
    "streaming-diloco",
)
"""The strategies under which units carry several layers. They are written down because every lane collects this file,
and to describe a model takes a second."""


def test_these_strategies_have_buckets_of_several_layers() -> None:
    model = described("resnet32")
    found = (
        name
        for name in PLANNED
        if any(len(unit.layers) > 1 for unit in cut(planned(name, "resnet32", WORKERS), model))
    )
    assert tuple(found) == BUCKETED


def stored(
    database: Database, plan: Plan, model_name: str | None, description: dict[str, object]
) -> tuple[str, int]:
    """A job with this plan, and its attempt."""
    job_id = str(uuid.uuid4())
    spec = {
        "name": plan.strategy,
        "model": {"name": model_name or "made up"},
        "data": {"name": "digits"},
        "strategy": {"name": plan.strategy},
        "cluster": {"workers": WORKERS},
    }

    def write(session: Session) -> int:
        session.add(
            Job(
                id=job_id,
                name=plan.strategy,
                spec=spec,
                plan=to_plain(plan),
                description=description,
                state="succeeded",
                created_unix_ns=0,
                queued_unix_ns=0,
            )
        )
        session.flush()
        attempt = Attempt(
            job_id=job_id,
            number=1,
            state="succeeded",
            parties=[f"worker {rank}" for rank in range(WORKERS)],
            devices=["cpu"] * WORKERS,
            token_sha256=token_sha256(TOKEN),
            epoch_unix_ns=0,
            directory="",
            created_unix_ns=0,
        )
        session.add(attempt)
        session.flush()
        return attempt.id

    return job_id, database.writer.run(write)


@pytest.mark.parametrize("strategy", BUCKETED)
def test_bytes_of_buckets_are_their_layers_own(strategy: str, database: Database) -> None:
    """What workers record of the messages that the plan declares is by layer what the plan says of its layers."""
    model = described("resnet32")
    plan = planned(strategy, model, WORKERS)
    native = {layer.layer for layer in plan.layers if layer.exchange == "native"}
    units = cut(plan, model)
    job_id, attempt = stored(database, plan, "resnet32", to_plain(model))
    place = {layer.name: layer.index for layer in model.layers}
    owner = {p.name: layer.index for layer in model.layers for p in layer.parameters}
    recorders = [full_recorder(attempt, party) for party in range(WORKERS)]
    whole: Counter[int] = Counter()
    for at, transfer in enumerate(t for t in declared(plan, model, WORKERS) if t.wire):
        start = at % 50 * MS
        whole[transfer.source] += transfer.bytes
        if transfer.layer in native:  # the worker itself tells the layers apart
            unit, before = units[transfer.unit], 0
            for segment in unit.segments:
                after = before + segment.count
                part = transfer.bytes * after // unit.count - transfer.bytes * before // unit.count
                recorders[transfer.source].moved(
                    owner[segment.parameter], Direction.TX, start=start, end=start + MS, bytes=part
                )
                before = after
        else:
            recorders[transfer.source].event(
                Kind.SEND, Track.SEND, step=0, layer=place[transfer.layer], unit=transfer.unit,
                peer=transfer.destination, start=start, end=start + MS, bytes=transfer.bytes,
            )  # fmt: skip
    for recorder in recorders:
        recorder.close()
        for body in recorder.memory:
            accept(database, attempt, TOKEN, body)
    expected = wire_bytes_by_layer(plan, model, WORKERS)
    with database.read() as session:
        source = Source(session, job_id)
        for level, last in ((0, 10), (1, 2)):
            panels = read_links(source, source.links(), level, (0, last), [Direction.TX])
            for panel in panels:
                assert panel.total.sum() == whole[panel.link.party], "not a byte is lost"
            found = sum(panel.layers.sum(axis=1) for panel in panels)
            bins = 3 * len(units) * (last + 1) * len(panels)
            for name, size in expected.items():
                assert found[place[name]] == pytest.approx(size, rel=1e-3, abs=bins), (level, name)


def test_rows_of_neighbours_stay_rows_of_neighbours() -> None:
    model = made_up((10,), (30,), (60,), (4,))
    order = Order(unit="bucket", size=260)
    plan = resolved(model, *(ring(f"l{i}", order=order) for i in range(4)))
    units = shared_units(plan, model, 2)
    assert [units.waited_for(layer) for layer in range(4)] == [(0,), (1, 2, 3), (1, 2, 3), (1, 2, 3)]
    assert bucket("l{}".format, (1, 3)) == "the bucket of l1 and 1 more", "what lies between is not in it"
    # From the last layer to the first: l3 and l2 reach 256 of 260 bytes, l1 is with them; l0 is alone.
    assert [units.layers(unit) for unit in range(3)] == [(1, 2, 3), (), ()]
    rows = np.zeros(2, BIN_ROW)
    rows["layer"], rows["bytes"] = [1, 0], [9400, 7]
    apart = units.split(rows, 0, 1)
    assert sorted(zip(apart["layer"].tolist(), apart["bytes"].tolist(), strict=True)) == [
        (0, 7), (1, 3000), (2, 6000), (3, 400),
    ]  # fmt: skip
    rows["layer"], rows["bytes"] = [0, -2], [10_400, 5]
    joined = units.split(rows, 0, 2)
    assert sorted(zip(joined["layer"].tolist(), joined["bytes"].tolist(), strict=True)) == [
        (-2, 5), (0, 4000), (2, 6400),
    ]  # fmt: skip
    assert units.split(rows, 5, 2) is rows, "a party of no bucket"


def test_a_plan_that_cannot_be_read_shares_nothing(database: Database) -> None:
    plan = planned("ring-allreduce", "cnn", WORKERS)
    job_id, _ = stored(database, plan, "cnn", to_plain(described("cnn")))

    def spoil(session: Session) -> None:
        job = session.get_one(Job, job_id)
        assert job.plan is not None
        job.plan = {**job.plan, "of another version": 1}

    database.writer.run(spoil)
    with database.read() as session:
        assert Source(session, job_id).job.units.layers(0) == ()


def test_one_event_is_named_as_its_bucket(database: Database) -> None:
    model = made_up((10,), (30,), (60,), (4,))
    order = Order(unit="bucket", size=10_000)
    plan = resolved(model, *(ring(f"l{i}", order=order) for i in range(4)), workers=WORKERS)
    job_id, attempt = stored(database, plan, None, to_plain(model))
    recorder = full_recorder(attempt, 0)
    recorder.event(Kind.FORWARD, Track.COMPUTE, step=0, layer=0, start=60 * MS, end=90 * MS)
    recorder.event(Kind.WAIT, Track.COMPUTE, step=0, layer=0, unit=0, start=20 * MS, end=60 * MS)
    recorder.event(
        Kind.RECEIVE, Track.RECEIVE, step=0, layer=0, unit=0, peer=1, queued=0, start=10 * MS, end=59 * MS, bytes=400
    )  # fmt: skip
    recorder.step(0, start=0, end=100 * MS, samples=1)
    recorder.close()
    for party in (1, 2):
        other = full_recorder(attempt, party)
        other.event(Kind.FORWARD, Track.COMPUTE, step=0, layer=1, start=0, end=90 * MS)
        other.step(0, start=0, end=100 * MS, samples=1)
        other.close()
        for body in other.memory:
            accept(database, attempt, TOKEN, body)
    for body in recorder.memory:
        accept(database, attempt, TOKEN, body)
    with database.read() as session:
        source = Source(session, job_id)
        drawn = answer(timeline(source, FigureRequest()))
        explained = why.read(session, job_id, None, Wait(party=0, step=0, layer=0, unit=0))
        links = answer(utilization(source, FigureRequest()))
        heat, narrow = (answer(heatmap(source, FigureRequest(width=width))) for width in (1280, 390))
    hovers = [text for bar in traces(drawn, "bar") for text in bar["hovertext"]]
    names = {text.split("<br>")[0] for text in hovers}
    assert "<b>bucket of l0, l1, l2, l3</b> receive, unit 0" in names
    assert "<b>bucket of l0, l1, l2, l3</b> exposed wait, unit 0" in names
    assert "<b>l0 (Linear)</b> forward" in names or "<b>l0</b> forward" in names
    assert "l0 + 3" in {label for bar in traces(drawn, "bar") for label in bar["text"]}
    assert [wait["layer_name"] for wait in drawn["layout"]["meta"]["waits"]] == ["l0 + 3"]
    assert explained.layer_name == "bucket of l0, l1, l2, l3"
    waited, moved = traces(heat, "heatmap")
    assert moved["y"] == [f"l{layer}" for layer in range(4)]
    assert waited["y"] == [f"l{layer}, in the bucket of l0 to l3" for layer in range(4)]
    for drawn in (heat, narrow):
        waits, sends = (drawn["layout"][axis] for axis in ("yaxis", "yaxis2"))
        assert (waits["ticktext"], waits["tickvals"]) == (["l0 + 3", "l1", "l2", "l3"], waited["y"])
        assert (sends["ticktext"], sends["tickvals"]) == (moved["y"], moved["y"])
    assert "layer l0, in the bucket of l0 to l3, is waited for most" in heat["layout"]["meta"]["alt"]
    assert len({area["name"] for area in traces(links, "scatter") if area.get("stackgroup") == "s1"}) == 4


def test_a_bucket_of_very_many_layers_names_the_first_ones(database: Database) -> None:
    plan = planned("ring-allreduce", "resnet32", WORKERS)
    job_id, _ = stored(database, plan, "resnet32", to_plain(described("resnet32")))
    with database.read() as session:
        job = Source(session, job_id).job
        assert bucket(job.title, job.units.waited_for(3)).startswith("the bucket of ")
        (unit,) = [unit for unit in job.units.parts if len(job.units.layers(unit)) > 9][:1]
        count = len(job.units.layers(unit))
        assert job.event_title(0, unit).endswith(f" and {count - 8} more")
        assert job.event_named(0, unit).endswith(f" + {count - 1}")
