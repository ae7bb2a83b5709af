"""Opening files in places where others write: what is no regular file is refused at once.

To open a pipe waits for who writes into it, a device may never end, and a link leads to a file that its owner never
meant to show. Which directories lead to the file is looked at, too: a program that may write into a folder can put a
link in the place of a folder below it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""Without waiting: for a regular file that changes nothing."""


class NotRegularError(OSError):
    """There is something else than a regular file, or a link on the way to it."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path} is {what}, and no regular file. Remove it, or put a file in its place")


def open_regular(path: Path, *, root: Path | None = None) -> BinaryIO:
    """The file at `path`, to be read. With `root`, which holds it, no part of the path below that may be a link.

    Raises NotRegularError for whatever is no regular file, FileNotFoundError where nothing is, and OSError.
    """
    descriptor = os.open(path, _READ) if root is None else _open_below(root, path)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise NotRegularError(path, _kind(mode))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, most: int, *, root: Path | None = None) -> bytes:
    """The first `most` bytes of a file; raises as `open_regular` does."""
    with open_regular(path, root=root) as file:
        return file.read(most)


def _open_below(root: Path, path: Path) -> int:
    """A descriptor of `path`, each name opened in the directory before it."""
    *folders, name = path.relative_to(root).parts
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in folders:
            below = _open_no_link(part, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, folder, path)
            os.close(folder)
            folder = below
        return _open_no_link(name, _READ, folder, path)
    finally:
        os.close(folder)


def _open_no_link(name: str, flags: int, folder: int, path: Path) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
    except OSError:
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        except OSError:
            mode = stat.S_IFREG
        if stat.S_ISREG(mode) or (stat.S_ISDIR(mode) and not flags & os.O_DIRECTORY):
            raise
        raise NotRegularError(path, _kind(mode)) from None


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISLNK, "a link"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISSOCK, "a socket"),
    )
    return next((name for test, name in kinds if test(mode)), "a device")
