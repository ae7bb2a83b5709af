"""A real PostgreSQL for tests (`backend/postgres.py`); where the machine cannot start one they are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from backend import postgres
from backend.postgres import Cluster
from tests.facilities import unavailable

__all__ = ["Cluster", "cluster"]


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A cluster while the block runs; a crash of the machine may take what it holds."""
    with ExitStack() as stack:
        try:
            started = stack.enter_context(postgres.cluster(*postgres.FAST))
        except postgres.NoPostgresError as error:
            unavailable("postgres", str(error))
        yield started
