"""Where a user's own code is, and where it failed: its file and line, and what was raised, without the frames of this
program or of PyTorch. No torch here."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Sequence
from pathlib import Path

FOLDERS: set[str] = set()
"""Whatever a user's code has been imported from in this process."""
_MOST_CHARACTERS = 600
_FAILED = (
    "The model, its loss and its data have to take every batch without an error, as they took the first. Correct this"
    " place: with the same seed the same batch comes in the same step again"
)
_ENDED = (
    "A model, its loss and its data must not end the process that trains them. Return, or raise an error that says what"
    " is wrong"
)
_NATIVE_STACK = "\nException raised from "
"""PyTorch appends its own stack behind this."""


def belongs(file: str) -> bool:
    """Whether the file of a module is a user's: below one of the folders, and not in an installed package there."""
    return any(file.startswith(f"{folder}/") for folder in FOLDERS) and "/site-packages/" not in file


def explain(error: BaseException, folders: Sequence[str | None]) -> str:
    """One line for who wrote the code in `folders`: "ValueError: too short (mine.py, line 12, in forward: `check(x)`)".

    The place is the innermost frame in one of the folders; without one, only what was raised is said.
    """
    place = where(error, folders)
    return f"{what(error)} ({place})" if place else what(error)


def what(error: BaseException) -> str:
    """Type and message, e.g. "ValueError: too short"."""
    text = _message(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def in_training(error: BaseException, folders: Sequence[str | None]) -> str | None:
    """Message, place, what was expected and the remedy, for who wrote the code in `folders`, where it failed while it
    trained; None where the error comes from elsewhere."""
    place = where(error, folders)
    if not place:
        return None
    expected = _ENDED if isinstance(error, SystemExit) else _FAILED
    return f"{_message(error)} ({place}). {expected}".lstrip()


def _message(error: BaseException) -> str:
    """In one line, without a stack."""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    text = " ".join(text.split(_NATIVE_STACK)[0].split())
    return text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + " ..."


def where(error: BaseException, folders: Sequence[str | None]) -> str:
    """File, line, function and source line of the innermost frame in `folders`; "" where there is none."""
    homes = [Path(folder).resolve() for folder in folders if folder]
    if isinstance(error, SyntaxError) and error.filename and (name := _within(error.filename, homes)):
        return _place(name, error.lineno, None, error.text)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if name := _within(frame.filename, homes):
            return _place(name, frame.lineno, frame.name, frame.line)
    return ""


def place_of(function: object) -> str:
    """File, line and name of a function that a user wrote, as `where` says them; "" for what is not written in Python,
    or not in a folder that users' code was imported from."""
    code = getattr(inspect.unwrap(function) if callable(function) else function, "__code__", None)
    name = _within(code.co_filename, [Path(folder) for folder in FOLDERS]) if code is not None else ""
    return _place(name, code.co_firstlineno, code.co_name, None) if name and code is not None else ""


def _within(filename: str, homes: Sequence[Path]) -> str:
    """The file's name as its author knows it, below one of `homes`; "" for a file elsewhere."""
    path = Path(filename).resolve()
    for home in homes:
        if path.is_relative_to(home):
            return str(path.relative_to(home))
    return ""


def _place(name: str, line: int | None, function: str | None, source: str | None) -> str:
    inside = f", in {function}" if function and function != "<module>" else ""
    shown = f": `{source.strip()}`" if source and source.strip() else ""
    return f"{name}, line {line}{inside}{shown}"
