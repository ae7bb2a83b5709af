"""`trainyard memory`: what a job's workers held in memory, and what became of what layers save for backward."""

from __future__ import annotations

from collections.abc import Iterator

from backend.cli import ids
from backend.cli.errors import reported
from backend.cli.jobs import AsJson, Attempt, Id, Url
from backend.cli.text import columns, out, out_json
from backend.client import Client
from backend.schemas.memory import JobMemory, LayerHeld
from engine.plan.units_of_measure import format_bytes

NONE = "No memory was recorded of this job."
UNCOUNTED = (
    "By layer nothing was counted: on the host only layers that swap or recompute their activations are, and on a CUDA"
    " device all."
)


def memory(
    job_id: Id,
    url: Url = None,
    attempt: Attempt = None,
    as_json: AsJson = False,
) -> None:
    """Show what each worker held in memory, by whose count, and by layer what was saved, left or computed again."""
    with reported(), Client(url) as client:
        query = {} if attempt is None else {"attempt": attempt}
        found = client.held(ids.job_id(client, job_id), **query)
    if as_json:
        out_json(found)
        return
    for line in lines(found):
        out(line)


def lines(found: JobMemory) -> Iterator[str]:
    """What is said of it."""
    yield from filter(None, (found.rehearsed, found.slowed))
    if not found.measured:
        yield NONE
        return
    sizes = ((one.first, one.last, one.most) for one in found.measured)
    rows = (
        (f"worker {one.worker}", one.measure, *map(format_bytes, each))
        for one, each in zip(found.measured, sizes, strict=True)
    )
    yield columns(("worker", "measure", "first", "last", "most"), rows)
    yield ""
    for measure, counted in {one.measure: one.counted for one in found.measured}.items():
        yield f"{measure}: {counted}"
    yield ""
    if not found.layers:
        yield UNCOUNTED
        return
    head = ("worker", "layer", "step", "saved", "swapped out", "computed again", "took", "waited")
    yield columns(head, map(_row, found.layers))


def _row(one: LayerHeld) -> tuple[str, ...]:
    return (
        f"worker {one.worker}",
        one.name or ("(root)" if one.layer >= 0 else "(no layer)"),
        f"{one.step:,}",
        "-" if one.saved is None else format_bytes(one.saved),
        *(format_bytes(size) if size else "-" for size in (one.left, one.again)),
        *(f"{ms:.3g} ms" if ms else "-" for ms in (one.again_ms, one.waited_ms)),
    )
