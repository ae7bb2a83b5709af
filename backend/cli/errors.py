"""Errors in the terminal: value, rule, remedy; exit code 2 for what a person can correct, 1 for the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import typer

from backend.cli.text import out
from backend.client import ApiError, ServerUnreachableError
from backend.errors import SurroundingsError
from backend.schemas.problems import FieldProblem
from engine.errors import UserError

USER_ERROR = 2
FAILURE = 1
INTERRUPTED = 130
"""As a shell has it for a program that SIGINT ended."""
MOST_FIELDS = 8
"""That one rule names."""


@contextmanager
def reported() -> Iterator[None]:
    """Print what goes wrong inside, and exit with its code."""
    try:
        yield
    except UserError as error:
        _print(error.every)
        raise typer.Exit(USER_ERROR) from None
    except ApiError as error:
        _print(error.problem.errors)
        if not error.problem.errors:
            out(f"error: {error}", err=True)
        raise typer.Exit(USER_ERROR if error.status < 500 else FAILURE) from None
    except (ServerUnreachableError, TimeoutError, SurroundingsError) as error:
        out(f"error: {error}", err=True)
        raise typer.Exit(FAILURE) from None


@contextmanager
def interrupted(told: str) -> Iterator[None]:
    """Where somebody presses Ctrl-C inside, say what becomes of what they wait for, and exit."""
    try:
        yield
    except KeyboardInterrupt:
        say(told)
        raise typer.Exit(INTERRUPTED) from None


def say(text: str) -> None:
    """A line beside the output."""
    out(text, err=True)


def _print(errors: Sequence[UserError] | Sequence[FieldProblem]) -> None:
    """Each reason once, however many fields break its rule."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for error in errors:
        what = repr(error.value) if error.field else str(error.value or "the request")
        found.setdefault((what, error.rule, error.remedy), []).append(error.field)
    for (what, rule, remedy), fields in found.items():
        first, *others = fields
        out(f"error: {first} = {what}" if first else f"error: {what}", err=True)
        if others:
            left = f" and {len(others) - MOST_FIELDS} more" if len(others) > MOST_FIELDS else ""
            out(f"  also:   {', '.join(others[:MOST_FIELDS])}{left}", err=True)
        out(f"  rule:   {rule}", err=True)
        out(f"  remedy: {remedy}", err=True)
