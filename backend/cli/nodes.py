"""`trainyard nodes`: the machines on which jobs are placed."""

from __future__ import annotations

from datetime import UTC, datetime

from backend.cli.errors import reported
from backend.cli.jobs import AsJson, Url
from backend.cli.text import columns, out, out_json
from backend.client import Client
from backend.schemas.nodes import NodeView

KINDS = ("cuda", "cpu", "rehearsal")


def nodes(url: Url = None, as_json: AsJson = False) -> None:
    """List the machines on which jobs are placed: where each is reached, whether it is there, what is free on it."""
    with reported(), Client(url) as client:
        found = client.nodes()
    if as_json:
        for each in found:
            out_json(each, lines=False)
        return
    head = ("number", "name", "address", "state", *(f"{kind} free" for kind in KINDS), "jobs")
    rows = map(_row, found)
    out(columns(head, rows) if found else "no server has told of its node: none of them places jobs")


def _row(node: NodeView) -> tuple[str, ...]:
    ago_s = (datetime.now(UTC) - node.seen_at).total_seconds()
    state = node.state if node.state == "up" else f"away, seen {ago_s:.0f} s ago"
    free = []
    for kind in KINDS:
        there = sum(device.kind == kind for device in node.devices)
        free.append(f"{node.free.get(kind, 0)} of {there}" if there else "-")
    names = dict.fromkeys(device.job_name for device in node.devices if device.job_name is not None)
    return str(node.id), node.name, node.address or "-", state, *free, ", ".join(map(repr, names)) or "-"
