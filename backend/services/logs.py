"""What a job's processes printed, a piece at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from backend.executors import files, log_limit, log_times
from backend.schemas.telemetry import Logs, LogTimes
from backend.services.errors import Conflict
from engine.errors import UnknownNameError
from engine.launch import slug
from engine.regular import NotRegularError, open_regular

MOST_TIMES = 2_000
"""In one answer."""
PIECE_BYTES = 1 << 20
"""Of a log that is read whole."""
NO_TIMES = LogTimes(until=[], unix_ms=[])
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
        return none(offered)
    path, failed = _chosen(directory, offered, chosen), failed_party(directory, offered)
    try:
        with open_regular(path, root=directory) as file:
            size = file.seek(0, 2)
            start = max(0, size + offset) if offset < 0 else min(offset, size)
            piece, end = log_limit.piece(file, start, limit)
    except FileNotFoundError:  # the process has not started
        return none(offered, chosen, failed)
    except NotRegularError as error:
        raise Conflict(f"the log of {chosen} is not read: {error}") from None
    if end == start + len(piece):
        piece = _whole_characters(piece)
        end = start + len(piece)
    rows = log_times.between(log_times.read(path, directory), start, end, MOST_TIMES)
    return Logs(
        party=chosen,
        parties=offered,
        text=piece.decode("utf-8", "replace"),
        next_offset=end,
        size=size,
        failed=failed,
        times=LogTimes(until=rows[:, 1].tolist(), unix_ms=rows[:, 0].tolist()),
    )


def none(offered: list[str], party: str = "", failed: str | None = None) -> Logs:
    """The answer where nothing has been written yet."""
    return Logs(party=party, parties=offered, text="", next_offset=0, size=0, failed=failed, times=NO_TIMES)


def failed_party(directory: Path, offered: list[str]) -> str | None:
    """Whose failure ended the attempt; None where none has, or it is not known."""
    end = files.read_end(directory)
    return end.party if end is not None and end.party in offered else None


def whole(directory: Path, parties: list[str], party: str | None) -> tuple[str, Iterator[bytes]]:
    """A party's name and its log from its beginning to where it ends now, piece by piece. Raises as `read` does, and
    Conflict where nothing has been written."""
    offered = [*parties, *([SUPERVISOR] if _path(directory, SUPERVISOR).is_file() else [])]
    chosen = party or next(iter(parties), SUPERVISOR)
    path = _chosen(directory, offered, chosen)
    try:
        file = open_regular(path, root=directory)
    except FileNotFoundError:
        raise Conflict(f"the log of {chosen} is not there: the process has not started") from None
    except NotRegularError as error:
        raise Conflict(f"the log of {chosen} is not read: {error}") from None

    def pieces() -> Iterator[bytes]:
        with file:
            start, size = 0, file.seek(0, 2)  # what it gets meanwhile would follow without an end
            while start < min(size, file.seek(0, 2)):  # a program may cut its own log off
                piece, start = log_limit.piece(file, start, min(PIECE_BYTES, size - start))
                yield piece

    return chosen, pieces()


def _chosen(directory: Path, offered: list[str], party: str) -> Path:
    if party not in offered:
        raise UnknownNameError("party", party, "log of this attempt", offered)
    return _path(directory, party)


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
