"""Utilization per layer as series, and more links than one drawing holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session

from backend.db import Database
from backend.db.models import Attempt
from backend.figures.course import bytes_until
from backend.figures.facts import LinkFacts
from backend.figures.link_bytes import apart
from backend.figures.request import FigureRequest
from backend.figures.source import Source
from backend.figures.utilization import MAX_LINKS, utilization
from backend.ingest import accept
from backend.services import links
from engine.telemetry.events import Kind, Track
from engine.telemetry.recorder import TRANSPORT, Recorder
from tests.backend.figures_drawn import answer, column, notes
from tests.backend.job_specs import submit
from tests.backend.posted_run import Posted, start_attempt
from tests.backend.recorded_run import LAYERS, TOKEN, add_job

MS = 1_000_000
BIN_MS = 10
RATE = 8_000_000
"""bit/s: 10,000 bytes fill a bin of 10 ms."""
STRANGERS = 700
"""Bytes of another program on the loopback interface, in each bin."""


def batches(attempt: int, parties: int) -> list[bytes]:
    """Every party sends 4,000 bytes of layer 1 in bin 0, 2,000 bytes of layer 0 in bin 1, to the next one, with 100
    bytes of headers each; party 0 samples the loopback interface, which others use, too."""
    found: list[bytes] = []
    for party in range(parties):
        recorder = Recorder(
            party, f"worker {party}", lambda: 0, None, attempt=attempt, flush_s=3600, host="here",
        )  # fmt: skip
        recorder.declare_link("transport", rate_bps=RATE, rate_source="declared", by_size=party == 1)
        for bin_, (layer, size) in enumerate(((1, 4_000), (0, 2_000))):
            start, end = bin_ * BIN_MS * MS, (bin_ + 1) * BIN_MS * MS
            for kind, track in ((Kind.SEND, Track.SEND), (Kind.RECEIVE, Track.RECEIVE)):
                recorder.event(kind, track, step=0, layer=layer, start=start, end=end, bytes=size, peer=-1)
        for bin_, total in enumerate((0, 4_100, 6_200)):
            recorder.link("transport", time=bin_ * BIN_MS * MS, tx_bytes=total, rx_bytes=total)
            if party == 0:
                if bin_ == 0:
                    recorder.declare_link("lo", shared=True)
                machine = total * parties + STRANGERS * bin_
                recorder.link("lo", time=bin_ * BIN_MS * MS, tx_bytes=machine, rx_bytes=machine)
        recorder.step(0, start=0, end=20 * MS, samples=16)
        recorder.close()
        found += recorder.memory
    return found


@pytest.fixture(scope="module")
def run(api: TestClient, tmp_path_factory: pytest.TempPathFactory) -> Posted:
    run = start_attempt(api, submit(api)["id"], tmp_path_factory.mktemp("run"))
    run.batches += batches(run.attempt, 2)
    run.post_all(api)
    return run


def ask(api: TestClient, run: Posted, status: int = 200, **query: Any) -> Any:
    found = api.get(f"/api/v1/jobs/{run.job_id}/links", params=query)
    assert found.status_code == status, found.text
    return found.json()


def test_every_layers_bytes_and_shares_are_series(api: TestClient, run: Posted) -> None:
    found = ask(api, run)
    assert (found["bin_ns"], found["start_ns"], found["bins"]) == (BIN_MS * MS, 0, 2)
    assert [(one["key"], one["direction"]) for one in found["links"]] == [
        ("0:transport", "send"), ("0:transport", "receive"), ("1:transport", "send"), ("1:transport", "receive"),
        ("0:lo", "send"), ("0:lo", "receive"),
    ]  # fmt: skip
    first = found["links"][0]
    assert (first["rate_bps"], first["rate_source"], first["shared"]) == (RATE, "declared", False)
    assert [one["by_size"] for one in found["links"]] == [False, False, True, True, False, False]
    layers = {one["index"]: (one["bytes"], one["utilization"]) for one in first["layers"]}
    assert layers == {0: ([0, 2_000], [0.0, 0.2]), 1: ([4_000, 0], [0.4, 0.0])}
    assert first["other_bytes"] == [100, 100]
    assert first["utilization"] == [0.41, 0.21]


def test_the_machines_interface_has_every_partys_layers_and_what_is_not_the_jobs(
    api: TestClient, run: Posted
) -> None:
    (machine,) = ask(api, run, link="0:lo", direction="send")["links"]
    assert machine["shared"] is True
    assert {one["index"]: one["bytes"] for one in machine["layers"]} == {0: [0, 4_000], 1: [8_000, 0]}
    assert machine["other_bytes"] == [200 + STRANGERS, 200 + STRANGERS]
    assert (machine["rate_bps"], machine["utilization"]) == (None, None)
    assert all(one["utilization"] is None for one in machine["layers"]), "no rate, no percentage"


def test_series_are_of_what_is_asked_for(api: TestClient, run: Posted) -> None:
    (one,) = ask(api, run, link="1:transport", direction="receive", layer=1)["links"]
    assert [layer["index"] for layer in one["layers"]] == [1]
    later = ask(api, run, from_ns=BIN_MS * MS, to_ns=BIN_MS * MS + 1)
    assert (later["start_ns"], later["bins"]) == (BIN_MS * MS, 1)
    assert later["links"][0]["layers"][0]["bytes"] == [2_000]
    wide = ask(api, run, bins=1)
    assert (wide["bin_ns"], wide["bins"]) == (8 * BIN_MS * MS, 1)
    assert {one["index"]: one["bytes"] for one in wide["links"][0]["layers"]} == {0: [2_000], 1: [4_000]}
    nothing = ask(api, run, from_ns=10**12, to_ns=10**12 + 1)
    assert (nothing["bins"], nothing["links"]) == (0, [])


def test_a_stretch_has_each_layers_bytes_over_each_link(api: TestClient, run: Posted) -> None:
    def asked(status: int = 200, **query: Any) -> Any:
        found = api.get(f"/api/v1/jobs/{run.job_id}/links/stretch", params=query)
        assert found.status_code == status, found.text
        return found.json()

    found = asked(from_ns=3 * MS, to_ns=12 * MS, link="0:transport")
    assert (found["from_ns"], found["to_ns"], found["bin_ns"]) == (0, 20 * MS, BIN_MS * MS)
    assert [(one["direction"], one["bytes"], one["share"], one["most"]) for one in found["links"]] == [
        ("send", 6_200, 0.31, 0.41), ("receive", 6_200, 0.31, 0.41),
    ]  # fmt: skip
    rows = {
        row["index"]: [(m["link"], m["bytes"], m["share"]) for m in row["moved"]] for row in found["layers"]
    }
    assert rows == {
        0: [(0, 2_000, 0.1), (1, 2_000, 0.1)], 1: [(0, 4_000, 0.2), (1, 4_000, 0.2)],
        -1: [(0, 200, 0.01), (1, 200, 0.01)],
    }  # fmt: skip
    assert [row["index"] for row in found["layers"]][-1] == -1, "what belongs to no layer comes last"
    assert found["steps_without_events"] == 0
    assert [one["key"] for one in asked(from_ns=0, to_ns=1)["links"]][-1] == "0:lo"
    assert asked(from_ns=10**12, to_ns=10**12 + 1)["layers"] == []
    whole, ages = asked(from_ns=0, to_ns=10**9), asked(from_ns=-(2**60), to_ns=2**60)
    assert ages["to_ns"] - ages["from_ns"] == ages["bin_ns"], "what nobody recorded takes no memory"
    assert [one["bytes"] for one in ages["links"]] == [one["bytes"] for one in whole["links"]]
    assert asked(from_ns=2**59, to_ns=2**60)["links"] == []
    assert "must be after" in str(asked(422, from_ns=5, to_ns=5))
    assert "0:transport" in str(asked(422, from_ns=0, to_ns=5, link="7:eth9"))


@pytest.mark.parametrize(
    ("query", "rule"),
    [({"link": "7:eth9"}, "0:transport"), ({"from_ns": 5}, "needs to_ns"), ({"attempt": 9}, "no such attempt"),
     ({"bins": 0}, "greater than or equal to 1"), ({"nonsense": 1}, "nonsense")],
)  # fmt: skip
def test_what_cannot_be_asked_for_is_refused(
    api: TestClient, run: Posted, query: dict[str, Any], rule: str
) -> None:
    assert rule in str(ask(api, run, 422, **query))


def wide_job(database: Database, parties: int) -> str:
    job_id, attempt = add_job(database, f"{parties} workers", workers=parties)

    def widen(session: Session) -> None:
        session.get_one(Attempt, attempt).parties = [f"worker {i}" for i in range(parties)]

    database.writer.run(widen)
    for body in batches(attempt, parties):
        accept(database, attempt, TOKEN, body)
    return job_id


def test_of_many_links_those_are_drawn_that_are_chosen(database: Database) -> None:
    job_id = wide_job(database, 12)
    with database.read() as session:
        source = Source(session, job_id)
        first = answer(utilization(source, FigureRequest()))["layout"]["meta"]
        assert len(first["links"]) == 13
        assert first["shown"] == [f"{party}:transport" for party in range(MAX_LINKS)]
        assert first["links"][-1] == {"value": "0:lo", "label": "lo on here, of the whole machine"}
        derived = answer(utilization(source, FigureRequest(links=("1:transport",))))
        chosen = answer(utilization(source, FigureRequest(links=("11:transport", "0:lo"))))
        later = FigureRequest(from_ns=10**15, to_ns=10**15 + 10**9)
        empty = answer(utilization(source, later))["layout"]["meta"]
    assert "worker 1</b> sends (transport on here), split among layers by size: 8 Mbit/s" in notes(derived)
    assert chosen["layout"]["meta"]["shown"] == ["11:transport", "0:lo"]
    assert empty["empty"]
    assert empty["shown"] == first["shown"], "the table beside the figure is of the same links"
    titles = notes(chosen)
    assert "worker 11</b> sends (transport on here): 8 Mbit/s, declared by the job" in titles
    assert "machine</b> sends (lo on here, with whatever else runs there): rate not known" in titles
    drawn = [trace for trace in chosen["data"] if trace.get("stackgroup") == "s3"]
    bytes_ = {trace["name"]: float(column(trace["y"]).sum()) * BIN_MS * MS / 8e9 for trace in drawn}
    assert bytes_[LAYERS[1]] == pytest.approx(12 * 4_000)
    assert bytes_["other"] == pytest.approx(2 * (12 * 100 + STRANGERS))


def test_the_machines_bytes_are_not_the_jobs(database: Database) -> None:
    job_id = wide_job(database, 3)
    with database.read() as session:
        total = bytes_until(Source(session, job_id), np.array([20 * MS]))
    assert total.tolist() == [3 * 6_200]


def test_one_answer_is_bounded(api: TestClient, run: Posted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "MOST_VALUES", 20)
    refused = ask(api, run, 422, bins=500)
    assert "Ask for fewer bins, one link, one direction or one layer" in refused["detail"]
    assert ask(api, run, link="0:transport", layer=0)["bins"] == 2


def test_who_asks_for_no_number_of_bins_gets_as_many_as_fit(
    api: TestClient, run: Posted, monkeypatch: pytest.MonkeyPatch
) -> None:
    fine = ask(api, run)
    assert (fine["bins"], fine["wider"]) == (2, None)
    layers = api.get(f"/api/v1/jobs/{run.job_id}").json()["plan"]["layers"]
    values = (len(layers) + 1) * len(fine["links"])
    monkeypatch.setattr(links, "MOST_VALUES", values)
    wide = ask(api, run)
    assert (wide["bins"], wide["bin_ns"]) == (1, 8 * BIN_MS * MS)
    assert wide["wider"] == (
        f"2 bins of these links and layers are up to {2 * values} values, and one answer holds {values}. "
        "Ask for one link, one direction, one layer or a shorter stretch for narrower ones"
    )
    assert ask(api, run, link="1:transport", direction="send")["wider"] is None
    assert "bins = 2" in ask(api, run, 422, bins=2)["detail"], "who asks for so many is told"
    monkeypatch.setattr(links, "MOST_VALUES", values - 1)
    assert "one link" in ask(api, run, 422)["detail"], "no bins are so wide that all links fit"


def test_links_that_an_interface_carries_hold_no_bytes_of_their_own() -> None:
    def link(party: int, interface: str, host: str, *, shared: bool = False) -> LinkFacts:
        return LinkFacts(
            party=party,
            interface=interface,
            host=host,
            rate_bps=None,
            rate_source="unknown",
            shared=shared,
            by_size=False,
        )

    lab = [
        link(0, "eth0", "a"),
        link(1, TRANSPORT, "a"),
        link(2, "eth0", "b"),
        link(0, "lo", "", shared=True),
    ]
    assert apart(lab) == [lab[0], lab[2]]
    alone = [link(0, TRANSPORT, "a"), link(1, TRANSPORT, "a")]
    assert apart(alone) == alone
