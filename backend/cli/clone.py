"""`trainyard clone`: a job once more, with changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from backend.cli import ids
from backend.cli.changes import change
from backend.cli.errors import reported, say
from backend.cli.jobs import Id, Settings, Url, Wait, wait_for
from backend.cli.progress import PLANNING, working
from backend.cli.text import out
from backend.client import Client
from engine.plan.serde import to_plain


def clone(
    job_id: Id,
    url: Url = None,
    set_: Settings = None,
    wait: Wait = False,
) -> None:
    """Submit a job's specification once more, with the fields that --set changes, and print the new job's id. Options
    that another strategy does not have are left out, and named."""
    with reported(), Client(url, on_away=say) as client:
        job_id = ids.job_id(client, job_id)
        old = to_plain(client.job(job_id).spec) if set_ else {}
        changes, dropped = fitting(change({}, set_, old), old, lambda name: options_of(client, name))
        for option, value in dropped.items():
            after = changes["strategy"]["name"]
            out(f"left out: strategy.options.{option} = {value!r}, which {after} does not have", err=True)
        with working(PLANNING):
            job = client.clone(job_id, changes)
        for warning in job.plan.warnings:
            out(f"warning: {warning}", err=True)
        out(job.id)
        if wait:
            wait_for(client, job)


def fitting(
    changes: dict[str, Any],
    old: Mapping[str, Any],
    options: Callable[[str], Collection[str] | None],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The changes, and the options of the old specification that they drop: where the strategy becomes another one,
    those that it does not have. `options` names a strategy's own; None for one that nobody knows."""
    strategy = changes.get("strategy")
    before = old.get("strategy", {})
    if not isinstance(strategy, dict) or strategy.get("name") in (None, before.get("name")):
        return changes, {}
    known = options(strategy["name"])
    if known is None:
        return changes, {}
    given = strategy.get("options") or {}
    dropped = {
        name: value
        for name, value in (before.get("options") or {}).items()
        if name not in known and name not in given
    }
    gone = dict.fromkeys(dropped)  # in a merge patch, null takes a field away
    return {
        **changes,
        "strategy": {**strategy, "options": {**gone, **given}},
    } if dropped else changes, dropped


def options_of(client: Client, name: str) -> Collection[str] | None:
    """What the server's strategy of that name takes; None where it has none of that name."""
    for entry in client.strategies():
        if entry.name == name:
            found: Collection[str] = entry.options_schema.get("properties", {}).keys()
            return found
    return None
