"""What the service keeps is for its own user: specifications may hold secrets, logs and models are somebody's work.

Files that an earlier version, or a person, left open to others are closed, and the log says so.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

OTHERS = 0o077
"""What a group and everybody else may do."""
logger = logging.getLogger(__name__)


def folder(path: Path) -> None:
    """Make a folder that only this user can look into, with those above it that are missing. Raises OSError."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    close(path)


def file(path: Path) -> None:
    """Make an empty file that only this user can read, where there is none. Raises OSError."""
    os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    close(path)


def close(path: Path) -> None:
    """Take others' permissions from what is there. Harmless where nothing is, or where it belongs to somebody else."""
    try:
        mode = path.stat().st_mode & 0o777
        if mode & OTHERS:
            path.chmod(mode & ~OTHERS)
            logger.warning("%s was open to other users (mode %o): now it is for this one only", path, mode)
    except FileNotFoundError:
        return
    except OSError as error:
        logger.warning("%s is open to other users, and stays so: %s", path, error.strerror)
