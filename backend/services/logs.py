"""What a job's processes printed, a piece at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from backend.executors import log_times
from backend.executors.attempt_files import AttemptFiles, Piece
from backend.schemas.telemetry import Logs, LogTimes
from backend.services.errors import Conflict
from engine.errors import UnknownNameError
from engine.launch import slug
from engine.regular import NotRegularError

MOST_TIMES = 2_000
"""In one answer."""
PIECE_BYTES = 1 << 20
"""Of a log that is read whole."""
NO_TIMES = LogTimes(until=[], unix_ms=[])
SUPERVISOR = "supervisor"
"""What started the parties has a log of its own: why an attempt ended before they began stands there."""


def read(files: AttemptFiles, parties: list[str], *, party: str | None, offset: int, limit: int) -> Logs:
    """`limit` bytes of the log of a party, or of the attempt's supervisor, from `offset`; a negative offset
    counts from the end.

    A piece ends between characters, so that pieces put together are the whole text. Raises UnknownNameError
    for a party that the attempt does not have: no client ever names a path. Raises Conflict where something else is in
    the log's place: a user's code may write here.
    """
    offered = _offered(files, parties)
    chosen = party or next(iter(parties), None)
    if (
        chosen is None
    ):  # never the supervisor unasked: who follows goes on at the same offset when parties come
        return none(offered)
    name, failed = _chosen(offered, chosen), failed_party(files, offered)
    try:
        piece = files.read(name, offset, limit)
    except FileNotFoundError:  # the process has not started
        return none(offered, chosen, failed)
    except NotRegularError as error:
        raise Conflict(f"the log of {chosen} is not read: {error}") from None
    text, end = _missing(piece), piece.next_offset
    if not text:
        text = _whole_characters(piece.content)
        end = piece.offset + len(text)
    rows = log_times.between(_times(files, name), piece.offset, end, MOST_TIMES)
    return Logs(
        party=chosen,
        parties=offered,
        text=text.decode("utf-8", "replace"),
        next_offset=end,
        size=piece.size,
        failed=failed,
        times=LogTimes(until=rows[:, 1].tolist(), unix_ms=rows[:, 0].tolist()),
    )


def none(offered: list[str], party: str = "", failed: str | None = None) -> Logs:
    """The answer where nothing has been written yet."""
    return Logs(party=party, parties=offered, text="", next_offset=0, size=0, failed=failed, times=NO_TIMES)


def failed_party(files: AttemptFiles, offered: list[str]) -> str | None:
    """Whose failure ended the attempt; None where none has, or it is not known."""
    found = files.failed_party()
    return found if found in offered else None


def whole(files: AttemptFiles, parties: list[str], party: str | None) -> tuple[str, Iterator[bytes]]:
    """A party's name and its log from its beginning to where it ends now, piece by piece. Raises as `read` does, and
    Conflict where nothing has been written."""
    offered = _offered(files, parties)
    chosen = party or next(iter(parties), SUPERVISOR)
    name = _chosen(offered, chosen)
    try:
        first = files.read(name, 0, PIECE_BYTES)
    except FileNotFoundError:
        raise Conflict(f"the log of {chosen} is not there: the process has not started") from None
    except NotRegularError as error:
        raise Conflict(f"the log of {chosen} is not read: {error}") from None

    def pieces() -> Iterator[bytes]:
        piece, size = first, first.size  # what it gets meanwhile would follow without an end
        while text := _missing(piece) or piece.content:
            yield text
            if piece.next_offset >= min(size, piece.size):  # a program may cut its own log off
                return
            piece = files.read(name, piece.next_offset, min(PIECE_BYTES, size - piece.next_offset))

    return chosen, pieces()


def _offered(files: AttemptFiles, parties: list[str]) -> list[str]:
    return [*parties, *([SUPERVISOR] if files.size(_name(SUPERVISOR)) is not None else [])]


def _chosen(offered: list[str], party: str) -> str:
    if party not in offered:
        raise UnknownNameError("party", party, "log of this attempt", offered)
    return _name(party)


def _name(party: str) -> str:
    return f"logs/{slug(party)}.log"


def _times(files: AttemptFiles, log: str) -> np.ndarray:
    try:
        return log_times.rows(files.read(log_times.name_of(log), 0, log_times.MOST_BYTES).content)
    except OSError:  # it has none, or something else is in their place: the log can be read without
        return log_times.rows(b"")


def _missing(piece: Piece) -> bytes:
    """What stands in place of a hole: one line that says how much is missing; nothing where there is none."""
    if piece.content or piece.next_offset == piece.offset:
        return b""
    size = piece.next_offset - piece.offset
    said = f"\n[{size:,} bytes were printed here and are not kept: a log keeps its beginning and its end]\n"
    return said.encode()


def _whole_characters(piece: bytes) -> bytes:
    """Without the first bytes of a character that the cut left at the end."""
    for back in range(1, min(4, len(piece)) + 1):
        byte = piece[-back]
        if byte & 0xC0 == 0x80:
            continue  # inside of a character: look for where it begins
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return piece[:-back] if length > back and len(piece) > back else piece
    return piece
