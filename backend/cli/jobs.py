"""Commands about jobs, all through the REST API."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from backend.called import apart, called, shorten
from backend.cli import ids
from backend.cli.changes import change
from backend.cli.errors import FAILURE, interrupted, reported, say
from backend.cli.progress import PLANNING, working
from backend.cli.text import age, columns, out, out_json, processors, progress, rate, share, took
from backend.client import ENDED, Client
from backend.lifecycle import said
from backend.rounding import SPEED_UP, STEP_TIME, THROUGHPUT, number
from backend.schemas.jobs import Job, JobSummary
from backend.schemas.staleness import StaleCounts
from backend.schemas.telemetry import SpeedUp, Summary
from engine.errors import UserError
from engine.plan.documents import check_size, load_object
from engine.plan.limits import JOB
from engine.telemetry.comparison import may_be_chance

Url = Annotated[
    str | None, typer.Option("--url", help="The server's address; TRAINYARD_URL. Default: 127.0.0.1:8000.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="field=value, e.g. training.steps=20 or overrides.0.codec=fp16; may be given several times.",
    ),
]
File = Annotated[Path, typer.Argument(help="The job's specification, YAML or JSON.")]
Id = Annotated[str, typer.Argument(help="The job's id, or as much of its beginning as no other has.")]
Attempt = Annotated[
    int | None, typer.Option(min=1, help="Which attempt, 1 is the first. Default: the latest.")
]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for its end; exit code 1 unless it succeeds.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the API's own answer.")]


def submit(
    file: File,
    url: Url = None,
    wait: Wait = False,
    baseline: Annotated[str | None, typer.Option(help="Job that its speed-up is measured against.")] = None,
    set_: Settings = None,
) -> None:
    """Submit the job in FILE and print its id; --set changes single fields of it."""
    with reported(), Client(url, on_away=say) as client:
        spec = change(read_spec(file), set_)
        if baseline is not None:
            spec["baseline"] = ids.job_id(client, baseline)
        with working(PLANNING):
            job = client.submit(spec)
        for warning in job.plan.warnings:
            out(f"warning: {warning}", err=True)
        out(job.id)
        if wait:
            wait_for(client, job)


def wait_for(client: Client, job: Job) -> None:
    """Waits for the job's end and says how it ended. Raises typer.Exit: 1 unless it succeeded."""
    goes_on = f"the job goes on; `trainyard cancel {job.id}` ends it"
    with interrupted(goes_on), working(said(job.state)) as tell:
        job = client.wait(job.id, on_look=lambda seen: tell(_standing(seen)))
    out(_ending(job), err=True)
    raise typer.Exit(0 if job.state == "succeeded" else FAILURE)


def list_jobs(
    *,
    url: Url = None,
    state: Annotated[str | None, typer.Option(help="Only these states, with commas.")] = None,
    strategy: Annotated[str | None, typer.Option(help="Only this strategy.")] = None,
    model: Annotated[str | None, typer.Option(help="Only this model.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Only this data set.")] = None,
    rehearsed: Annotated[bool | None, typer.Option(help="Only rehearsals, or none.")] = None,
    since: Annotated[datetime | None, typer.Option(help="Only those made then or later (UTC).")] = None,
    text: Annotated[str | None, typer.Option(help="Only names that hold this.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only those with this tag.")] = None,
    owner: Annotated[str | None, typer.Option(help="Only those of this user.")] = None,
    race: Annotated[str | None, typer.Option(help="Only those of the race with this id.")] = None,
    sort: Annotated[
        str | None, typer.Option(help="By a column, e.g. loss, or -samples_per_s for the largest first.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first or by --sort."""
    with reported(), Client(url) as client:
        found = list(
            client.jobs(
                limit=limit,
                state=state,
                strategy=strategy,
                model=model,
                dataset=dataset,
                rehearsed=rehearsed,
                text=text,
                tag=tag,
                owner=owner,
                race=None if race is None else ids.race_id(client, race),
                sort=sort,
                created_from=since.isoformat() if since else None,
            )
        )
    if as_json:
        for job in found:
            out_json(job, lines=False)
        return
    short = shorten(job.id for job in found)
    head = (
        "id",
        "name",
        "state",
        "strategy",
        "model",
        "workers",
        "step",
        "samples/s",
        "accuracy",
        "speed-up",
    )
    last = ("owner",) if any(job.owner for job in found) else ()
    rows = (_row(job, short[job.id]) + ((job.owner or "-",) if last else ()) for job in found)
    out(columns((*head, "age", "took", "tags", *last), rows))
    for name, job in zip(apart([job.name for job in found], [job.id for job in found]), found, strict=True):
        if mark := _mark(job):
            out(f"{mark} {name}: {job.speed_up_caveat}")


def show(job_id: Id, url: Url = None, as_json: AsJson = False) -> None:
    """Show one job: its state and why, its figures, its plan."""
    with reported(), Client(url) as client:
        job_id = ids.job_id(client, job_id)
        job = client.job(job_id)
        if as_json:
            out_json(job)
            return
        summary = client.summary(job_id)
        late = client.staleness(job_id, windows=1).everything if job.plan.drifts else None
    faster = summary.speed_up
    lines = {
        "id": job.id,
        "name": job.name,
        "state": said(job.state) + (f" ({job.reason})" if job.reason else ""),
        "why": job.message,
        "owner": job.owner,
        "project": job.spec.project,
        "strategy": f"{job.planned_by}, {job.workers} workers",
        "model, data": f"{job.model}, {job.dataset}",
        "fidelity": job.rehearsed,
        "faults": job.slowed,
        "network": rate(job),
        "steps": _steps(job.step, job.steps),
        "loss": number(job.loss),
        "test accuracy": accuracy(job),
        "iteration": _with(number(summary.iteration_ms, STEP_TIME), "the median of the slowest worker"),
        "exposed": number(summary.exposed_ms, STEP_TIME),
        "input": waiting_for_input(summary),
        "processors": processors(summary.processors) if summary.iteration_ms else None,
        "staleness": None if late is None else _staleness(late),
        "throughput": _with(
            number(summary.samples_per_s, f"{THROUGHPUT} samples/s"),
            "the sum over the workers, each by its own median iteration",
        ),
        "speed-up": None
        if faster is None
        else f"{number(faster.value, SPEED_UP)} over {_baseline(job, faster)}{_sureness(faster)}",
        "hint": summary.input_hint,
        "but": faster.why_not if faster else None,
        "tags": ", ".join(job.tags) or None,
        "note": job.note,
    }
    for name, value in lines.items():
        if value is not None:
            out(f"{name:14} {value}")
    for attempt in job.attempts[-1:]:
        if attempt.resumed_step is not None:
            out(
                f"note           attempt {attempt.number} goes on from the checkpoint of step {attempt.resumed_step}"
            )
        if attempt.preempted_for is not None:
            verb = "makes" if attempt.state == "preempting" else "made"
            out(f"note           attempt {attempt.number} {verb} room for the job {attempt.preempted_for}")
        for text in [*(one.text for one in attempt.lost), *(one.text for one in attempt.dropped)]:
            out(f"note           {text}")
    out(f"\n{job.plan.text}")


def accuracy(job: Job) -> str:
    """The last that was measured and, where workers drift, of which model it is."""
    return share(job.test_accuracy) + (f" (of {job.accuracy_of})" if job.accuracy_of else "")


def waiting_for_input(summary: Summary) -> str | None:
    """How long workers wait for their data, and of several each its share of its own step; None where nobody does."""
    if not summary.input_ms:
        return None
    shares = ", ".join(f"worker {one.worker} {share(one.share)}" for one in summary.inputs)
    one = share(summary.inputs[0].share) if summary.inputs else "-"
    return f"{number(summary.input_ms, STEP_TIME)} ({shares if len(summary.inputs) > 1 else one} of the step)"


def _with(value: str, words: str) -> str:
    """A figure and how it is made; where there is none, nothing is to be said of it."""
    return value if value == "-" else f"{value} ({words})"


def _baseline(job: Job, faster: SpeedUp) -> str:
    """By name, with its short id where the job has the same one."""
    if faster.baseline_id is None:
        return repr(faster.baseline_name)
    return apart([repr(job.name), repr(faster.baseline_name)], [job.id, faster.baseline_id])[1]


def _sureness(faster: SpeedUp) -> str:
    """`, which may be chance: 0.43x to 1.02x`, or how sure it is otherwise, where that is known."""
    if faster.low is None or faster.high is None:
        return ""
    if faster.certainty == "chance":
        return f", {may_be_chance((faster.low, faster.high))}"
    level = "level, " if faster.certainty == "level" else ""
    return f" ({level}95 %: {number(faster.low, '{:.2f}')} to {number(faster.high, '{:.2f}')})"


def logs(
    job_id: Id,
    url: Url = None,
    party: Annotated[
        str | None, typer.Option(help="Which process, e.g. 'worker 1'. Default: the first one.")
    ] = None,
    attempt: Attempt = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the job ends.")] = False,
) -> None:
    """Print what one process of a job printed."""
    with reported(), Client(url, on_away=say) as client:
        job_id = ids.job_id(client, job_id)
        if follow:
            for text in client.follow(job_id, party, attempt=attempt):
                typer.echo(text, nl=False)
            return
        offset = 0
        while (piece := client.logs(job_id, party, attempt=attempt, offset=offset)).next_offset > offset:
            offset = piece.next_offset
            typer.echo(piece.text, nl=False)


def cancel(job_id: Id, url: Url = None) -> None:
    """End a job."""
    with reported(), Client(url) as client:
        out(_ending(client.cancel(ids.job_id(client, job_id))))


def preempt(job_id: Id, url: Url = None) -> None:
    """Let a job make room for others: it goes on from its checkpoint when its turn comes again."""
    with reported(), Client(url) as client:
        out(_ending(client.preempt(ids.job_id(client, job_id))))


def baseline(
    job_id: Id,
    other: Annotated[str | None, typer.Argument(help="The other job's id. Left out: none.")] = None,
    url: Url = None,
) -> None:
    """Measure a job's speed-up against OTHER from now on."""
    with reported(), Client(url) as client:
        job = client.choose_baseline(
            ids.job_id(client, job_id), None if other is None else ids.job_id(client, other)
        )
        against = "nothing" if job.baseline_id is None else client.job(job.baseline_id).name
        out(f"{job.name} is measured against {against}")


def record(
    job_id: Id,
    url: Url = None,
    steps: Annotated[int, typer.Option(min=1, max=1000, help="How many steps.")] = 20,
) -> None:
    """Keep every event of the next steps of a running job."""
    with reported(), Client(url) as client:
        found = client.record(ids.job_id(client, job_id), steps)
        out(f"steps {found.first_step} to {found.last_step} are recorded")


def delete(
    job_ids: Annotated[list[str], typer.Argument(metavar="JOB_ID...", help="Jobs that have ended.")],
    url: Url = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove jobs that have ended, with everything that was recorded of them."""
    if not yes:
        typer.confirm(f"Delete {len(job_ids)} job{'s' * (len(job_ids) > 1)} for good?", abort=True)
    with reported(), Client(url) as client:
        for job_id in job_ids:
            _delete(client, ids.job_id(client, job_id))


def read_spec(file: Path) -> dict[str, Any]:
    """The specification as plain data; directories of entry points are taken from the file's own folder.

    Raises UserError for a file that cannot be read or parsed; the fields themselves are judged by the server.
    """
    try:
        with file.open("rb") as opened:  # a pipe of the shell will do
            content = opened.read(JOB.size + 1)
        check_size(len(content), str(file))
        text = content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            "FILE", str(file), f"cannot be read: {error}", "Name a readable YAML or JSON file"
        ) from None
    spec = load_object(text, str(file))
    for source in (spec.get("model"), spec.get("data")):
        if isinstance(source, dict) and isinstance(source.get("directory"), str):
            # Path.resolve() raises where links lead in a circle; the server says what is wrong with a directory.
            source["directory"] = os.path.realpath(file.resolve().parent / source["directory"])
    return spec


def _delete(client: Client, job_id: str) -> None:
    with working(f"deleting {job_id}") as tell:
        client.delete(job_id, on_progress=lambda done: tell(f"deleting {job_id}  {share(done)}"))


def _standing(job: Job) -> str:
    return progress(job) if job.state == "running" else said(job.state)


def _row(job: JobSummary, short: str) -> tuple[str, ...]:
    return (
        short,
        job.name,
        said(job.state),
        job.planned_by,
        called(job.model, job),
        str(job.workers),
        _steps(job.step, job.steps),
        number(job.samples_per_s, THROUGHPUT),
        share(job.test_accuracy),
        number(job.speed_up, SPEED_UP) + _mark(job),
        age(job.created_at),
        took(job.started_at, job.ended_at),
        ", ".join(job.tags),
    )


def _mark(job: JobSummary) -> str:
    """Of a speed-up that is to be taken with care; a line below the table says why."""
    return "*" if job.speed_up is not None and job.speed_up_caveat else ""


def _staleness(of: StaleCounts) -> str:
    """In one line; `trainyard staleness` says it of every worker and layer."""
    return (
        f"{number(of.mean, '{:.2f}')} updates on average, at most {of.most:,}" if of.most is not None else "-"
    )


def _steps(step: int | None, steps: int | None) -> str:
    return f"{step or 0}/{steps}" if steps else number(step, "{}")


def _ending(job: Job) -> str:
    ending = f"{job.name}: {said(job.state)}"
    if job.state in ENDED and job.test_accuracy is not None:
        ending += f", test accuracy {share(job.test_accuracy)}"
    return f"{ending}: {job.message}" if job.message else ending
