"""Errors in the terminal: value, rule, remedy; exit code 2 for what a person can correct, 1 for the rest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from backend.client import ApiError, ServerUnreachableError
from engine.errors import UserError

USER_ERROR = 2
FAILURE = 1


@contextmanager
def reported() -> Iterator[None]:
    """Print what goes wrong inside, and exit with its code."""
    try:
        yield
    except UserError as error:
        _print(error.field, error.value, error.rule, error.remedy)
        raise typer.Exit(USER_ERROR) from None
    except ApiError as error:
        for entry in error.problem.errors:
            _print(entry.field, entry.value, entry.rule, entry.remedy)
        if not error.problem.errors:
            typer.echo(f"error: {error}", err=True)
        raise typer.Exit(USER_ERROR if error.status < 500 else FAILURE) from None
    except (ServerUnreachableError, TimeoutError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(FAILURE) from None


def _print(field: str, value: Any, rule: str, remedy: str) -> None:
    what = f"{field} = {value!r}" if field else str(value or "the request")
    typer.echo(f"error: {what}", err=True)
    typer.echo(f"  rule:   {rule}", err=True)
    typer.echo(f"  remedy: {remedy}", err=True)
