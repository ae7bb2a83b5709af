"""A file that a command writes what a server answers into."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from backend.cli.progress import working
from engine.errors import UserError
from engine.plan.units_of_measure import format_bytes


@contextmanager
def written(out: Path) -> Iterator[tuple[IO[bytes], Callable[[int], None]]]:
    """The file, and who is to be told how many bytes are written. Under the name `out` there is a whole one or none.
    Raises UserError where it cannot be written."""
    part = out.with_name(f"{out.name}.part")
    try:
        with part.open("wb") as file, working(f"writing {out}") as tell:
            yield file, lambda count: tell(f"writing {out}  {format_bytes(count)}")
        part.replace(out)
    except OSError as error:
        if isinstance(error, ConnectionError | TimeoutError):
            raise
        remedy = "Name a file in a folder of yours"
        raise UserError("--out", str(out), f"cannot be written: {error}", remedy) from None
    finally:
        part.unlink(missing_ok=True)
