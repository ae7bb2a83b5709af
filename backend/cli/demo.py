"""`trainyard demo`: the server, the demo's jobs one at a time, a table of results, and the page all along."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Annotated, Any

import httpx
import typer

from backend.cli.background import BackgroundServer, StartError
from backend.cli.demo_jobs import RACE, RUNS, Run
from backend.cli.demo_report import clock, progress, row, table
from backend.settings import Settings
from engine.plan.serde import to_plain

ENDED = frozenset({"succeeded", "failed", "cancelled"})
POLL_S = 1.0
LINE_EVERY_S = 4.0
"""Between two progress lines of a job whose state does not change."""
CANCEL_LIMIT_S = 20.0


Once = Annotated[bool, typer.Option("--once", help="End when the jobs have ended, with their status.")]


def demo(once: Once = False) -> None:
    """Train the demo jobs one after another, and watch them race in a browser."""
    signal.signal(signal.SIGTERM, _interrupt)
    # One device per worker of the widest run: jobs wait for each other, and nothing disturbs what is measured.
    settings = Settings(cpu_devices=max(run.workers for run in RUNS))
    try:
        with BackgroundServer(settings) as server, _client(server) as api:
            if server.moved:
                _say(f"Port {settings.port} is taken: this server listens on {server.address}.")
            _say(f"Data are kept in {settings.data_dir.resolve()}.")
            succeeded = Demo(api, server.address).run()
            if once:
                raise typer.Exit(0 if succeeded else 1)
            _serve(server)
    except StartError as error:
        typer.echo(f"trainyard demo: {error}", err=True)
        raise typer.Exit(2) from None


class Demo:
    """The runs, through the API as any client would submit them."""

    def __init__(self, api: httpx.Client, address: str) -> None:
        self._api = api
        self._address = address
        self._start = time.monotonic()
        self._ids: dict[Run, str] = {}

    def run(self) -> bool:
        """Submit all, follow them, print the table; whether every job succeeded. Interrupted, cancels all."""
        try:
            self._submit()
            race = ",".join(id_ for run, id_ in self._ids.items() if run.template == RACE)
            page = f"{self._address}/race?jobs={race}"
            _say(f"\n  Watch it live:  {page}\n\n{len(RUNS)} jobs run, one at a time.\n")
            for run in RUNS:
                self._follow(run)
        except BaseException:
            self._cancel()
            raise
        jobs = [self._job(run) for run in RUNS]
        rows = [row(job, self._get(f"/jobs/{job['id']}/summary")) for job in jobs]
        _say(f"\n{table(rows)}\n\n  The race:  {page}\n  All jobs:  {self._address}/jobs\n")
        return all(job["state"] == "succeeded" for job in jobs)

    def _submit(self) -> None:
        for run in RUNS:
            names = {(done.template, done.strategy): id_ for done, id_ in self._ids.items()}
            baseline = None if run.baseline is None else names[run.template, run.baseline]
            answer = self._api.post("/jobs", json=to_plain(run.specification(baseline)))
            if answer.is_error:
                raise StartError(f"the job {run.name!r} was refused: {answer.text}")
            self._ids[run] = answer.json()["id"]

    def _follow(self, run: Run) -> None:
        """Print how the run stands until it has ended."""
        shown, next_line, began = "", 0.0, time.monotonic()
        while True:
            job, now = self._job(run), time.monotonic()
            if job["state"] in ENDED:
                self._line(run, _ending(job, now - began))
                return
            text = progress(job) if job["state"] == "running" else job["state"]
            changed = job["state"] != shown
            if changed or (job["state"] == "running" and now >= next_line):
                self._line(run, text)
                shown, next_line = job["state"], now + LINE_EVERY_S
            time.sleep(POLL_S)

    def _cancel(self) -> None:
        """Cancel what has not ended and wait for it, so that no process outlives an interrupted demo."""
        open_runs = [run for run in self._ids if self._job(run)["state"] not in ENDED]
        for run in open_runs:
            self._api.post(f"/jobs/{self._ids[run]}/cancel", json={})
        deadline = time.monotonic() + CANCEL_LIMIT_S
        while any(self._job(run)["state"] not in ENDED for run in open_runs):
            if time.monotonic() > deadline:
                _say(f"After {CANCEL_LIMIT_S:.0f} s jobs are still ending; their supervisors finish that.")
                return
            time.sleep(POLL_S)

    def _job(self, run: Run) -> dict[str, Any]:
        return self._get(f"/jobs/{self._ids[run]}")

    def _get(self, path: str) -> dict[str, Any]:
        answer = self._api.get(path)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def _line(self, run: Run, text: str) -> None:
        width = max(len(each.name) for each in RUNS)
        _say(f"{clock(time.monotonic() - self._start)}  {run.name:<{width}}  {text}")


def _ending(job: dict[str, Any], seconds: float) -> str:
    if job["state"] == "succeeded":
        return f"succeeded after {seconds:.0f} s  {progress(job)}"
    return f"{job['state']}: {job['message'] or job['reason']}"


def _client(server: BackgroundServer) -> httpx.Client:
    return httpx.Client(base_url=f"{server.address}/api/v1", timeout=30, trust_env=False)


def _serve(server: BackgroundServer) -> None:
    _say(
        "The server goes on until Ctrl-C. It offers as many devices as the demo's jobs used;\n"
        "`trainyard serve` (make serve) offers all."
    )
    try:
        while server.running:
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        _say("\nStopped.")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


_say: Callable[[str], None] = typer.echo
