"""What does telemetry cost a worker? Time per event in the recording thread, and bytes per event in the
spool.

The load is a step of 20 layers: forward, backward, wait and update of each, and five slices sent and
received. Run: `python -m engine.benchmarks.recorder_cost`.
"""

from __future__ import annotations

import random
import statistics
import time

from engine.benchmarks.harness.report import Report, arguments
from engine.telemetry.batch import decode
from engine.telemetry.detail import DetailPolicy
from engine.telemetry.events import Kind, Track
from engine.telemetry.recorder import Recorder

LAYERS, SLICES, SLICE_BYTES = 20, 5, 200_000


def call_ns(*, repeat: int = 15, events: int = 20_000) -> tuple[float, float]:
    """Median and worst-run time of one `event` call while the background thread flushes, in ns. A run stays
    below the queue's capacity, as training does: 20,000 events in a few hundredths of a second."""
    runs = []
    for _ in range(repeat):
        recorder = Recorder(0, "worker", time.monotonic_ns, None)
        begin = time.perf_counter_ns()
        for index in range(events):
            recorder.event(
                Kind.SEND,
                Track.SEND,
                step=index // 280,
                layer=index % LAYERS,
                unit=index % SLICES,
                peer=1,
                priority=3,
                queued=index,
                start=index,
                end=index + 9,
                bytes=SLICE_BYTES,
            )
        runs.append((time.perf_counter_ns() - begin) / events)
        recorder.close()
    return statistics.median(runs), max(runs)


def spooled(*, detail: DetailPolicy, steps: int = 3000) -> tuple[int, int, int]:
    """(events recorded, events kept whole, bytes spooled) of `steps` steps of about 50 ms, a batch every
    5."""
    jitter = random.Random(0)
    recorder = Recorder(0, "worker", lambda: now, None, flush_s=3600, detail=detail)
    now = recorded = 0
    for step in range(steps):
        begin = now
        for layer in range(LAYERS):
            for kind in (Kind.WAIT, Kind.FORWARD, Kind.BACKWARD, Kind.UPDATE):
                took = jitter.randrange(300_000, 900_000)
                recorder.event(kind, Track.COMPUTE, step=step, layer=layer, start=now, end=now + took)
                now += took
            for unit in range(SLICES):
                for kind, track in ((Kind.SEND, Track.SEND), (Kind.RECEIVE, Track.RECEIVE)):
                    recorder.event(
                        kind,
                        track,
                        step=step,
                        layer=layer,
                        unit=unit,
                        peer=2,
                        priority=layer,
                        queued=now - jitter.randrange(1_000_000),
                        start=now,
                        end=now + jitter.randrange(300_000, 900_000),
                        bytes=SLICE_BYTES,
                    )
            recorded += 4 + 2 * SLICES
        recorder.step(step, start=begin, end=now, samples=32, loss=1.0, exposed=5, compute=6)
        if step % 5 == 4:
            recorder.flush()
    recorder.close()
    kept = sum(len(decode(body).table("events")) for body in recorder.memory)
    return recorded, kept, sum(map(len, recorder.memory))


def main() -> None:
    options = arguments(__doc__).parse_args()
    with Report(
        "recorder-cost",
        "What recording costs",
        "Time per event in the thread that records, bytes per event?",
        options,
    ) as report:
        repeat, steps = (5, 500) if options.quick else (15, 3000)
        report.plan(
            [f"{repeat} x 20,000 events", f"{steps} steps spooled, twice"],
            minutes=0.2 if options.quick else 0.5,
        )
        median, worst = call_ns(repeat=repeat)
        report.table("One call", ["median run, ns", "worst run, ns"], [[round(median), round(worst)]])
        rows = []
        for mode in ("all", "chosen"):
            recorded, kept, size = spooled(detail=DetailPolicy(mode=mode), steps=steps)
            rows.append([mode, recorded, kept, size, round(size / recorded, 2)])
        columns = ["detail", "events recorded", "kept whole", "bytes spooled", "bytes per recorded event"]
        report.table("In the spool, totals and 10 ms bins included", columns, rows)


if __name__ == "__main__":
    main()
