"""The recorder: nothing lost but detail, and that counted; threads; full queues; full disks; kill -9."""

from __future__ import annotations

import math
import os
import signal
import struct
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from engine.regular import write_whole
from engine.telemetry import asked
from engine.telemetry.batch import Batch, decode
from engine.telemetry.detail import DetailPolicy
from engine.telemetry.events import ALL_LAYERS, Clock, Direction, Kind, Track
from engine.telemetry.recorder import Recorder, flushes_together
from engine.telemetry.spool import SpoolReader, SpoolWriter, parties

ALL = DetailPolicy(mode="all")
NEVER_S = 3600.0
"""No flush but the one asked for."""


def recorder(spool: Path | None = None, **options: object) -> Recorder:
    return Recorder(0, "worker 0", lambda: 0, spool, **{"flush_s": NEVER_S, "detail": ALL, **options})  # type: ignore[arg-type]


def send(to: Recorder, step: int, *, start: int = 0, end: int = 10, size: int = 100, layer: int = 0) -> None:
    to.event(Kind.SEND, Track.SEND, step=step, layer=layer, start=start, end=end, bytes=size)


def batches(of: Recorder) -> list[Batch]:
    return [decode(body) for body in of.memory]


def table(of: Recorder, name: str) -> np.ndarray:
    return np.concatenate([batch.table(name) for batch in batches(of)])


def test_an_event_arrives_as_it_was_recorded() -> None:
    r = recorder()
    places = {"layer": 3, "unit": 12, "peer": 1, "priority": -4}
    r.event(Kind.RECEIVE, Track.RECEIVE, step=7, queued=5, start=10, end=20, bytes=2**40, **places)
    r.event(Kind.FORWARD, Track.COMPUTE, step=7, start=21, end=22, clock=Clock.CUDA)
    r.close()
    assert table(r, "events").tolist() == [
        (7, 3, 12, Kind.RECEIVE, Track.RECEIVE, 1, -4, 5, 10, 20, 2**40, Clock.HOST),
        (7, -1, -1, Kind.FORWARD, Track.COMPUTE, -1, 0, -1, 21, 22, 0, Clock.CUDA),
    ]


def test_a_value_that_is_no_integer_is_refused_at_once() -> None:
    r = recorder()
    with pytest.raises(struct.error):
        r.event(Kind.SEND, Track.SEND, step=0, start=0.5, end=1)  # type: ignore[arg-type]
    r.close()


def test_every_event_of_many_threads_is_recorded_once() -> None:
    r = recorder(flush_s=0.01)

    def work(layer: int) -> None:
        for index in range(5000):
            send(r, step=index, size=layer + 1, layer=layer)

    threads = [threading.Thread(target=work, args=(layer,), daemon=True) for layer in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    last = r.close()
    assert [batch.sequence for batch in batches(r)] == list(range(last + 1))
    assert sum(batch.dropped for batch in batches(r)) == 0
    events = table(r, "events")
    assert sorted(zip(events["layer"].tolist(), events["step"].tolist(), strict=True)) == [
        (layer, step) for layer in range(6) for step in range(5000)
    ]
    assert table(r, "totals")["bytes"].sum() == 5000 * (1 + 2 + 3 + 4 + 5 + 6)


def test_a_full_queue_costs_detail_but_never_totals_and_says_how_much() -> None:
    r = recorder(capacity=100)
    for index in range(1050):
        send(r, step=index % 3)
    r.close()
    assert sum(batch.dropped for batch in batches(r)) == 1000
    assert batches(r)[0].dropped_steps == (0, 2)
    assert len(table(r, "events")) == 50
    totals = table(r, "totals")
    assert totals["count"].sum() == 1050
    assert totals["bytes"].sum() == 105_000
    assert table(r, "bins")["bytes"].sum() == 105_000


def test_steps_metrics_and_links_arrive() -> None:
    r = recorder()
    r.declare_link("transport", rate_bps=1000, rate_source="shaped")
    r.step(3, start=1, end=9, samples=16, exposed=2, compute=5, input=1)
    r.metric("test_accuracy", 3, 0.5)
    r.metric("test_loss", 3, 2.5)
    r.metric("test_accuracy", 4, 0.75)
    r.link("eth0", time=0, tx_bytes=10, rx_bytes=20)
    r.link("eth0", time=10, tx_bytes=15, rx_bytes=20)
    r.close()
    (batch,) = batches(r)
    step = batch.table("steps")[0].tolist()
    assert math.isnan(step[4])
    assert step[:4] + step[5:] == (3, 1, 9, 16, 2, 5, 1)
    assert [(batch.metrics[m["name"]], m["step"], m["value"]) for m in batch.table("metrics")] == [
        ("test_accuracy", 3, 0.5),
        ("test_loss", 3, 2.5),
        ("test_accuracy", 4, 0.75),
    ]
    assert [(link.interface, link.rate_bps, link.rate_source) for link in batch.links] == [
        ("transport", 1000, "shaped"),
        ("eth0", None, "unknown"),
    ]
    assert batch.table("bins").tolist() == [(1, Direction.TX, ALL_LAYERS, 0, 5)]


def test_nothing_recorded_writes_no_batch_until_the_final_one() -> None:
    r = recorder(flush_s=0.005)
    for _ in range(3):
        r.flush()
    assert r.memory == []
    assert r.close() == 0
    assert r.close() == 0, "closing twice is harmless"
    assert [batch.final for batch in batches(r)] == [True]


# --- which details are kept ---


def steps_of(r: Recorder) -> list[int]:
    return sorted(set(table(r, "events")["step"].tolist()))


def run_on(r: Recorder, first: int, end: int) -> None:
    """Steps of a microsecond, each flushed."""
    for step in range(first, end):
        send(r, step=step, start=step * 1000, end=(step + 1) * 1000)
        r.flush()


def run(r: Recorder, steps: int, slow: dict[int, int], *, step_ns: int = 1_000_000_000) -> None:
    now = 0
    for step in range(steps):
        took = slow.get(step, step_ns)
        send(r, step=step, start=now, end=now + took)
        r.step(step, start=now, end=now + took, samples=1)
        now += took
        r.flush()


def test_first_steps_a_few_of_every_hundred_the_slowest_and_the_last_minute_are_kept() -> None:
    policy = DetailPolicy(first=5, few=2, every=100, slowest_after=10, last_ns=60_000_000_000)
    r = recorder(detail=policy)
    run(r, 350, slow={20: 2_000_000_000, 30: 1_500_000_000, 40: 3_000_000_000})
    kept = {0, 1, 2, 3, 4} | {100, 101, 200, 201, 300, 301} | {20, 40}
    assert set(steps_of(r)) == kept, "30 was slower than most, but not the slowest so far"
    r.close()
    assert set(steps_of(r)) - kept == set(range(350 - 61, 350)) - kept
    assert table(r, "totals")["count"].sum() == 350


def test_what_a_slow_step_still_sends_after_its_end_is_kept_as_well() -> None:
    r = recorder(detail=DetailPolicy(first=0, few=0, last_ns=0))
    run(r, 30, slow={25: 9_000_000_000})
    send(r, step=25, start=40_000_000_000, end=41_000_000_000)
    r.close()
    assert table(r, "events")["step"].tolist().count(25) == 2


def test_the_last_minute_is_bounded_and_what_had_to_go_is_counted() -> None:
    r = recorder(detail=DetailPolicy(first=0, few=0, slowest_after=10**6, held=50))
    run(r, 200, slow={}, step_ns=1000)
    r.close()
    assert steps_of(r) == list(range(150, 200))
    assert sum(batch.dropped for batch in batches(r)) == 150


def test_no_step_is_kept_for_being_slow_where_that_is_not_wanted() -> None:
    r = recorder(detail=DetailPolicy(first=0, few=0, slowest_after=None, last_ns=0))
    run(r, 30, slow={25: 9_000_000_000})
    r.close()
    assert steps_of(r) == [29], "it ends as the recorder closes"
    assert sum(batch.dropped for batch in batches(r)) == 0, "what nobody wants is not missing"


def test_what_had_to_go_is_missing_only_where_it_would_have_been_kept() -> None:
    r = recorder(detail=DetailPolicy(first=0, few=0, slowest_after=None, held=50, last_ns=10_000))
    run(r, 200, slow={}, step_ns=100)
    send(r, step=200, start=1_000_000, end=1_000_001)
    r.close()
    assert sum(batch.dropped for batch in batches(r)) == 0, "the last 10 us hold step 200 only"


def ask(file: Path, steps: asked.Range) -> None:
    write_whole(file, asked.added(file.read_bytes() if file.exists() else None, steps))


def test_steps_that_a_person_asks_for_are_kept_from_before_and_after_the_question(tmp_path: Path) -> None:
    file = tmp_path / asked.FILE
    r = recorder(detail=DetailPolicy(first=0, few=0, slowest_after=None), asked=file)
    run_on(r, 0, 100)
    ask(file, (95, 104))
    run_on(r, 100, 110)
    ask(file, (108, 108))
    r.flush()
    assert steps_of(r) == [*range(95, 105), 108]
    r.close()
    assert table(r, "events")["step"].tolist().count(99) == 1, "kept once"


def test_what_is_asked_for_is_still_there_where_no_last_minute_is_wanted(tmp_path: Path) -> None:
    file = tmp_path / asked.FILE
    r = recorder(detail=DetailPolicy(first=0, few=0, slowest_after=None, last_ns=0), asked=file)
    run(r, 40, slow={})
    ask(file, (35, 36))
    r.flush()
    assert steps_of(r) == [35, 36]
    ask(file, (10, 11))
    r.flush()
    assert steps_of(r) == [35, 36], "ten seconds wait"
    ask(file, (37, 37))
    r.close()
    assert steps_of(r) == [35, 36, 37, 39], "39 ends as the recorder closes"


def test_a_broken_question_does_not_stop_the_recorder(tmp_path: Path) -> None:
    file = tmp_path / asked.FILE
    file.write_text("{")
    r = recorder(asked=file)
    send(r, step=0)
    r.close()
    assert steps_of(r) == [0]


def test_a_policy_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="every = 0"):
        DetailPolicy(every=0)
    with pytest.raises(ValueError, match="Known: all, chosen"):
        DetailPolicy(mode="most")  # type: ignore[arg-type]


# --- the spool ---


def test_batches_are_spooled_in_order_and_a_restarted_party_goes_on(tmp_path: Path) -> None:
    for start in (0, 2):
        r = recorder(tmp_path)
        send(r, step=start)
        r.flush()
        send(r, step=start + 1)
        assert r.close() == start + 1
    (reader,) = parties(tmp_path)
    assert reader.sequences() == [0, 1, 2, 3]
    steps = [decode(reader.read(s) or b"").table("events")["step"].tolist() for s in reader.sequences()]
    assert steps == [[0], [1], [2], [3]]
    for sequence in range(4):
        reader.acknowledge(sequence)
    assert (reader.sequences(), reader.last_sequence()) == ([], 3)
    r = recorder(tmp_path)
    assert r.close() == 4


def test_a_torn_batch_is_put_aside(tmp_path: Path) -> None:
    r = recorder(tmp_path)
    send(r, step=0)
    r.flush()
    send(r, step=1)
    r.close()
    reader = SpoolReader(tmp_path / "0")
    torn = tmp_path / "0" / "0000000001.batch"
    torn.write_bytes(torn.read_bytes()[:-5])
    (tmp_path / "0" / "0000000002.batch.tmp").write_bytes(b"half")
    assert reader.sequences() == [0, 1]
    assert reader.read(1) is None
    assert reader.sequences() == [0]
    assert reader.last_sequence() == 0


def test_a_disk_that_refuses_does_not_stop_training_and_nothing_is_lost_when_it_recovers(
    tmp_path: Path,
) -> None:
    r = recorder(tmp_path, capacity=10)
    directory = tmp_path / "0"
    directory.rename(tmp_path / "away")
    send(r, step=0)
    with pytest.raises(OSError, match="No such file"):
        r.flush()
    for step in range(1, 25):
        send(r, step=step)
    (tmp_path / "away").rename(directory)
    r.close()
    reader = SpoolReader(directory)
    found = [decode(reader.read(sequence) or b"") for sequence in reader.sequences()]
    assert [batch.sequence for batch in found] == [0, 1]
    assert sum(int(batch.table("totals")["count"].sum()) for batch in found) == 25


def test_a_spool_that_the_server_does_not_empty_gets_totals_only_until_it_does(tmp_path: Path) -> None:
    r = recorder(tmp_path, spool_bytes=100)
    reader = SpoolReader(tmp_path / "0")
    found = []
    for step in range(3):
        send(r, step=step)
        r.flush()
        found.append(decode(reader.read(step) or b""))
        if step == 1:
            reader.acknowledge(0)
            reader.acknowledge(1)
    assert [batch.table("events")["step"].tolist() for batch in found] == [[0], [], [2]]
    assert [(batch.dropped, batch.dropped_steps) for batch in found] == [
        (0, (-1, -1)),
        (1, (1, 1)),
        (0, (-1, -1)),
    ]
    assert [batch.table("totals")["count"].sum() for batch in found] == [1, 1, 1]
    r.close()


def test_a_server_that_falls_behind_gets_fewer_and_larger_batches(tmp_path: Path) -> None:
    assert [flushes_together(waiting) for waiting in (0, 7, 8, 16, 10_000)] == [1, 1, 2, 3, 8]
    writer = SpoolWriter(tmp_path, 0)
    for sequence in range(3):
        writer.write(sequence, b"12345")
    assert writer.waiting() == (3, 15)
    SpoolReader(tmp_path / "0").acknowledge(1)
    assert writer.waiting() == (1, 5)


def test_a_disk_that_stays_full_is_named_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.telemetry.recorder.PATIENCE_S", 0)
    r = recorder(tmp_path)
    (tmp_path / "0").rename(tmp_path / "away")
    send(r, step=0)
    with pytest.raises(OSError, match=r"telemetry of worker 0 cannot be written .*Free space"):
        r.close()


def test_acknowledging_needs_no_room(tmp_path: Path) -> None:
    r = recorder(tmp_path)
    send(r, step=0)
    r.close()
    reader = SpoolReader(tmp_path / "0")
    before = (tmp_path / "0" / "acknowledged").stat()
    reader.acknowledge(0)
    after = (tmp_path / "0" / "acknowledged").stat()
    assert (after.st_ino, after.st_size) == (before.st_ino, before.st_size), "overwritten in place"
    assert (reader.acknowledged(), reader.sequences()) == (0, [])


KILLED = """
import sys, time
from pathlib import Path
from engine.telemetry.recorder import Recorder
from engine.telemetry.events import Clock, Kind, Track
recorder = Recorder(1, "worker 1", time.monotonic_ns, Path(sys.argv[1]), flush_s=0.01)
step = 0
while True:
    for _ in range(100):
        recorder.event(Kind.SEND, Track.SEND, step=step, layer=0, start=step, end=step + 1, bytes=1)
    step += 1
    if step == 20:
        recorder.flush()
        print("spooled", flush=True)
    time.sleep(0.001)
"""


def test_kill_9_keeps_everything_already_spooled(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "spooled\n"
    process.send_signal(signal.SIGKILL)
    assert process.wait(30) == -signal.SIGKILL
    process.stdout.close()
    (reader,) = parties(tmp_path)
    found = [decode(reader.read(sequence) or b"") for sequence in reader.sequences()]
    assert [batch.sequence for batch in found] == list(range(len(found)))
    totals = np.concatenate([batch.table("totals") for batch in found])
    per_step = {step: int(totals["count"][totals["step"] == step].sum()) for step in range(20)}
    assert per_step == dict.fromkeys(range(20), 100)
    assert not any(batch.final for batch in found)
    assert not [name for name in os.listdir(tmp_path / "1") if name.endswith(".torn")]  # noqa: PTH208
