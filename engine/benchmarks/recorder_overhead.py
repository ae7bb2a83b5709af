"""What does telemetry add to a step? The recorder on and off, with a server that answers and one that stalled.

    python -m engine.benchmarks.recorder_overhead

Two workers of P3, replayed compute, no limit on the network. Three ways, in turns: without recorder (`Launch.record`:
only the steps' own times), with recorder and uploader while the server answers every batch at once (kept, not stored:
the service's own work is `backend.ingest.benchmark`'s), and with a server that accepts connections and never answers,
so that the spool grows.
"""

from __future__ import annotations

import json
import statistics
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import create_server
from typing import Any

from engine.benchmarks.harness.jobs import Measured, bench_job, measure
from engine.benchmarks.harness.machine import BUSY, cpu_use
from engine.benchmarks.harness.pairs import METHOD, ratio, rounds
from engine.benchmarks.harness.report import Report, arguments
from engine.launch import Launch
from engine.telemetry.batch import decode
from engine.telemetry.spool import SpoolWriter
from engine.telemetry.uploader import Uploader

ANSWERED, STALLED, OFF = "server answers", "server stalled", "off"
_DRAIN_S = 30.0


@contextmanager
def answering(launch: Launch) -> Iterator[Path]:
    """An uploader, and a server that takes every batch; answers where the batches are then."""
    received = launch.directory / "received"

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = {"batches": 0}
            if self.path.endswith("/batches"):
                batch = decode(body)
                SpoolWriter(received, batch.party).write(batch.sequence, body)
                answer = {"party": batch.party, "sequence": batch.sequence}
            text = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    uploader = Uploader(
        launch.spool, f"http://127.0.0.1:{server.server_port}", "token", attempt=launch.attempt
    )
    try:
        yield received
    finally:
        outcome = uploader.finish(timeout_s=_DRAIN_S)
        server.shutdown()
        server.server_close()
    if not outcome.sealed:
        raise RuntimeError(f"the batches did not arrive: {outcome.problem}")


@contextmanager
def stalled(launch: Launch) -> Iterator[Path]:
    """An uploader, and a server that accepts its connection and says nothing."""
    with create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        uploader = Uploader(launch.spool, f"http://127.0.0.1:{port}", "token", attempt=launch.attempt)
        try:
            yield launch.spool
        finally:
            uploader.finish(timeout_s=0)


BESIDE = {OFF: None, ANSWERED: answering, STALLED: stalled}
COLUMNS = ("recorder", "median step, ms", "times off", "CPU of both workers per step, ms", "CPU")


def rows_of(found: Mapping[str, Sequence[Measured]]) -> list[list[Any]]:
    """The table's rows: the runs of each way."""
    rows = []
    for way, runs in found.items():
        times = [run.iteration_ns for run in runs]
        longer = ratio(times, [run.iteration_ns for run in found[OFF]])
        shown = "" if way == OFF else f"{longer}{' *' if longer.significant else ''}"
        cpu_ms = statistics.median(run.cpu_s for run in runs) * 1e3
        cpu = cpu_use(run.cpu_share for run in runs)
        rows.append([way, statistics.median(times) / 1e6, shown, cpu_ms, cpu])
    return rows


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=35)
    parser.add_argument("--batch", type=int, default=32, help="samples of each worker")
    parser.add_argument("--scale", type=float, default=15)
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.steps = 1, 15
    with Report(
        "recorder-overhead",
        "What recording adds to a step",
        "How much longer is a step with telemetry?",
        options,
    ) as report:
        report.plan(
            [f"{options.rounds} rounds of {', '.join(BESIDE)}: {options.model}, {options.steps} steps"],
            minutes=options.rounds * 3 * (5 + 0.3 * options.steps) / 60,
        )
        report.method(
            f"Rehearsed: {options.model} on a P4000 at 0.6 of its peak, two workers, batch {options.batch} each, "
            f"tensors and slices divided by {options.scale:g}; p3. {METHOD} Off keeps one row per step and nothing "
            "else; reading the clock at each layer stays, and is not part of what is measured. "
            f"{BUSY}"
        )
        job = bench_job(
            options.model,
            "p3",
            workers=2,
            batch=options.batch,
            steps=options.steps,
            rehearsal={"device": "p4000", "scale": options.scale},
        )
        found: dict[str, list[Measured]] = {way: [] for way in BESIDE}
        for number, way in rounds(list(BESIDE), options.rounds):
            run = measure(job, record=way != OFF, beside=BESIDE[way])
            found[way].append(run)
            print(f"  round {number + 1} {way}: {run.iteration_ns / 1e6:.2f} ms a step", flush=True)
            report.raw([{"recorder": way, "round": number, **run.row()}])
        report.table("A step", COLUMNS, rows_of(found))


if __name__ == "__main__":
    main()
