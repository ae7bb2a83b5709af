"""Files of text: found, read, and refused where they are not text."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

from engine.errors import UserError

MOST_BYTES = 1 << 28
"""Text is held in memory while its vocabulary is trained: 256 MiB."""
_OF_NO_INTEREST = frozenset({"test", "tests", "idlelib", "turtledemo", "site-packages", "__pycache__"})


def find(paths: Sequence[str], pattern: str, field: str) -> list[Path]:
    """The files that `paths` name, and of every folder those whose names match `pattern`, in a fixed order; no paths:
    the sources of Python's standard library, without its tests, of which those that match.

    Raises UserError on `field` for paths that do not exist, folders without such files, and too much text.
    """
    if not paths:
        root = Path(sysconfig.get_path("stdlib"))
        sources = [path for path in _below(root, "*.py", _OF_NO_INTEREST) if fnmatch(path.name, pattern)]
        if not sources:
            raise UserError(
                "data.options.pattern",
                pattern,
                "no source of Python's standard library has such a name",
                "Correct it, or name files or folders in `paths`",
            )
        return _limited(sources, field)
    found: dict[Path, None] = {}  # an ordered set: a file and its folder may both be named
    for name in paths:
        path = Path(name)
        if path.is_dir():
            here = list(_below(path, pattern, frozenset()))
            if not here:
                raise UserError(
                    field, name, f"has no file that matches {pattern!r}", "Correct the folder or `pattern`"
                )
        elif path.is_file():
            here = [path]
        else:
            raise UserError(
                field, name, "is neither a file nor a folder on this machine", "Name files that exist"
            )
        found.update(dict.fromkeys(here))
    return _limited(list(found), field)


def read(files: Sequence[Path], field: str) -> list[str]:
    """The text of each file. Raises UserError on `field` for a file that is not UTF-8, or where all are empty."""
    texts = []
    for path in files:
        try:
            texts.append(path.read_bytes().decode("utf-8-sig"))
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(
                field,
                str(path),
                f"cannot be read as UTF-8 text: {error}",
                "Name text only, or narrow `pattern`",
            ) from error
    if not any(text and not text.isspace() for text in texts):
        shown = ", ".join(map(str, files[:3])) + (", ..." if len(files) > 3 else "")
        raise UserError(field, shown, "holds no text", "Name files with words in them")
    return texts


def _below(folder: Path, pattern: str, skipped: frozenset[str]) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in skipped)
        for name in sorted(names):
            if not name.startswith(".") and fnmatch(name, pattern) and Path(where, name).is_file():
                yield Path(where, name)


def _limited(files: list[Path], field: str) -> list[Path]:
    total = 0
    for path in files:
        total += path.stat().st_size
        if total > MOST_BYTES:
            raise UserError(
                field,
                str(path),
                f"the files hold more than {MOST_BYTES >> 20} MiB up to here",
                "Name fewer files, or narrow `pattern`",
            )
    return files
