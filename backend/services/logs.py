"""What a job's processes printed, a piece at a time."""

from __future__ import annotations

from pathlib import Path

from backend.schemas.telemetry import Logs
from backend.services.errors import Conflict
from engine.errors import UnknownNameError
from engine.regular import NotRegularError, open_regular
from engine.runtime.launch import slug

SUPERVISOR = "supervisor"
"""What started the parties has a log of its own: why an attempt ended before they began stands there."""


def read(directory: Path, parties: list[str], *, party: str | None, offset: int, limit: int) -> Logs:
    """`limit` bytes of the log of a party, or of the attempt's supervisor, from `offset`; a negative offset
    counts from the end.

    A piece ends between characters, so that pieces put together are the whole text. Raises UnknownNameError
    for a party that the attempt does not have: no client ever names a path. Raises Conflict where something else is in
    the log's place: a user's code may write here.
    """
    offered = [*parties, *([SUPERVISOR] if _path(directory, SUPERVISOR).is_file() else [])]
    chosen = party or next(iter(parties), None)
    if (
        chosen is None
    ):  # never the supervisor unasked: who follows goes on at the same offset when parties come
        return Logs(party="", parties=offered, text="", next_offset=0, size=0)
    if chosen not in offered:
        raise UnknownNameError("party", chosen, "log of this attempt", offered)
    path = _path(directory, chosen)
    try:
        with open_regular(path, root=directory) as file:
            size = file.seek(0, 2)
            start = max(0, size + offset) if offset < 0 else min(offset, size)
            file.seek(start)
            piece = _whole_characters(file.read(limit))
    except FileNotFoundError:  # the process has not started
        return Logs(party=chosen, parties=offered, text="", next_offset=0, size=0)
    except NotRegularError as error:
        raise Conflict(f"the log of {chosen} is not read: {error}") from None
    text = piece.decode("utf-8", "replace")
    return Logs(party=chosen, parties=offered, text=text, next_offset=start + len(piece), size=size)


def _path(directory: Path, party: str) -> Path:
    return directory / "logs" / f"{slug(party)}.log"


def _whole_characters(piece: bytes) -> bytes:
    """Without the first bytes of a character that the cut left at the end."""
    for back in range(1, min(4, len(piece)) + 1):
        byte = piece[-back]
        if byte & 0xC0 == 0x80:
            continue  # inside of a character: look for where it begins
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return piece[:-back] if length > back and len(piece) > back else piece
    return piece
