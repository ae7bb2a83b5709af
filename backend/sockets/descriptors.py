"""Open files: how many this process may have, and how many of them connections may take."""

from __future__ import annotations

import resource

from engine.errors import UserError

RESERVE = 200
"""Left to all else: database, supervisors that are started, processes that describe and draw, files that are read. At
most 63 were counted, with jobs that start, models that are described and 60 clients that ask for all of it."""
LEAST = 20
"""Connections without which a server is of no use: a page, its requests and the supervisors."""


def room_for(connections: int) -> int:
    """So many connections may be open, at most `connections`. Raises this process's limit of open files where it is too
    low and may be raised. Raises UserError where it leaves room for next to none."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + RESERVE
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    if limit < min(wanted, LEAST + RESERVE):
        rule = f"is too low: the server itself needs {RESERVE}, and {LEAST} connections are the least"
        raise UserError("limit of open files", limit, rule, raise_to(connections))
    return limit - RESERVE


def raise_to(connections: int) -> str:
    """The remedy."""
    return f"Raise it (ulimit -n {connections + RESERVE}) and start the server again"
