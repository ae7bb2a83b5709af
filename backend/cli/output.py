"""Where standard output cannot be written: a full disk, a device that takes nothing."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

FAILURE = 1
UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


@contextmanager
def told_where_output_fails() -> Iterator[None]:
    """Say it in a line, and exit with FAILURE. What a command writes to a file of its own, it reports itself."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in UNWRITABLE or error.filename is not None:
            raise
        # Python writes once more what is left, as it ends, and would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"error: the output cannot be written: {error.strerror}. Write it elsewhere", file=sys.stderr)
        sys.exit(FAILURE)
