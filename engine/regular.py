"""Files in places where others write: what is no regular file is refused at once, and written are new files only.

To open a pipe waits for who writes into it, a device may never end, and a link leads to a file that its owner never
meant to show or to be written. Which directories lead to the file is looked at, too: a program that may write into a
folder can put a link in the place of a folder below it.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import BinaryIO

PRIVATE = 0o600
"""For this user only."""
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""Without waiting: for a regular file that changes nothing."""


class NotRegularError(OSError):
    """There is something else than a regular file, or a link on the way to it."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path} is {what}, and no regular file. Remove it, or put a file in its place")
        self._said = path, what

    def __reduce__(self) -> tuple[type[NotRegularError], tuple[Path, str]]:
        return type(self), self._said  # it travels from the machine that has the file


def open_regular(path: Path, *, root: Path | None = None) -> BinaryIO:
    """The file at `path`, to be read. With `root`, which holds it, no part of the path below that may be a link.

    Raises NotRegularError for whatever is no regular file, FileNotFoundError where nothing is, and OSError.
    """
    descriptor = os.open(path, _READ) if root is None else _open_below(root, path, _READ)
    try:
        _check(descriptor, path)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, most: int, *, root: Path | None = None) -> bytes:
    """The first `most` bytes of a file; raises as `open_regular` does."""
    with open_regular(path, root=root) as file:
        return file.read(most)


def overwrite_regular(path: Path, content: bytes, *, root: Path) -> None:
    """Put `content` over the beginning of a file, which is made for this user only where it is missing, and wait until
    the disk has it; raises as `open_regular` does."""
    descriptor = _open_below(root, path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        _check(descriptor, path)
        os.pwrite(descriptor, content, 0)
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, content: bytes, *, mode: int = PRIVATE, sync: bool = False) -> None:
    """Write a file, so that a reader sees either what was there or the whole new one, also after this process is killed
    (with `sync`: after a power cut). Whatever had the name before is replaced, and nothing that it leads to is touched.
    """
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if sync:
                file.flush()
                os.fdatasync(descriptor)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _check(descriptor: int, path: Path) -> None:
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        raise NotRegularError(path, _kind(mode))


def _open_below(root: Path, path: Path, flags: int) -> int:
    """A descriptor of `path`, each name opened in the directory before it."""
    *folders, name = path.relative_to(root).parts
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in folders:
            below = _open_no_link(part, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, folder, path)
            os.close(folder)
            folder = below
        return _open_no_link(name, flags, folder, path)
    finally:
        os.close(folder)


def _open_no_link(name: str, flags: int, folder: int, path: Path) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW, PRIVATE, dir_fd=folder)
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
