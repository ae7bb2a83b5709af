"""The server's token: one secret that page, command line, client and every other program show.

It comes from the environment or from a file, never from an argument: those are in every user's process list. Nothing
here repeats a token in an error.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from engine.errors import UserError

VARIABLE, FILE_VARIABLE = "TRAINYARD_TOKEN", "TRAINYARD_TOKEN_FILE"
LEAST, MOST = 16, 512
"""Characters. The least is what a person may choose; a token of ours has 43, 256 random bits."""
MAKE_ONE = "to make one: export TRAINYARD_TOKEN=$(trainyard token)"


def new_token() -> str:
    """A fresh one, of letters, digits, `-` and `_`, which needs no quotes anywhere."""
    while (token := secrets.token_urlsafe(32)).startswith("-"):
        pass  # a command would take it for an option
    return token


def checked(text: str, *, field: str = VARIABLE) -> str:
    """The token that `text` holds, without white space around it.

    Raises UserError where that is no token: empty, too short or too long, or of characters that no HTTP header carries.
    """
    token = text.strip()
    if not token:
        raise UserError(
            field, "(empty)", "is no token", f"Leave the variable unset where none is wanted; {MAKE_ONE}"
        )
    said = f"({len(token)} characters)"
    if not LEAST <= len(token) <= MOST:
        raise UserError(field, said, f"a token has {LEAST} to {MOST} characters", f"Use another; {MAKE_ONE}")
    if not all("!" <= character <= "~" for character in token):
        rule = "a token has letters, digits and signs of ASCII, and no spaces: it travels in an HTTP header"
        raise UserError(field, said, rule, f"Use another; {MAKE_ONE}")
    return token


def read(file: Path) -> str:
    """The token in `file`. Raises UserError where it cannot be read, or holds none."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UserError(
            FILE_VARIABLE, str(file), f"cannot be read ({reason})", "Make one: trainyard token --out FILE"
        ) from None
    return checked(text, field=FILE_VARIABLE)


def write(token: str, file: Path) -> None:
    """Into a new file that only its owner reads. Raises UserError where it exists or cannot be made."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise UserError(
            "out", str(file), f"cannot be made ({error.strerror})", "Name a file that is not there yet"
        ) from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        out.write(f"{token}\n")


def only_one(token: object, file: object) -> None:
    """Raises UserError where both are given: nobody could say which one counts."""
    if token is not None and file is not None:
        raise UserError(
            FILE_VARIABLE, str(file), f"{VARIABLE} is set, too", f"Leave {VARIABLE} or {FILE_VARIABLE} out"
        )


def from_environment() -> str | None:
    """The token that this process's user has for the server; None: none is set. Raises UserError as `checked` does."""
    token, file = os.environ.get(VARIABLE), os.environ.get(FILE_VARIABLE)
    only_one(token, file)
    if token is not None:
        return checked(token)
    return None if file is None else read(Path(file))
