"""The place for temporary files of an attempt's processes: a folder of its own, which goes when they have ended.

Libraries leave files in the system's folder when their process is killed or ends at once (`multiprocessing` a folder
for each fork server). The attempt's own directory will not do: it may be so deep that the names of sockets do not fit
into the 107 bytes that the system has for them. The folder's name follows from the attempt's directory, so that whoever
ends the attempt finds it, also when that directory has vanished.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

VARIABLE = "TMPDIR"
"""What says to every program where temporary files go."""


def make(directory: Path) -> Path:
    """The folder of the attempt in `directory`, for this user only. Raises OSError, also where it is there."""
    made = Path(tempfile.gettempdir()) / _name(directory)
    made.mkdir(mode=0o700)
    return made


def remove(directory: Path) -> None:
    """Remove the folder with all that is in it; by the server, or by the attempt's own processes. Twice is harmless."""
    name, here = _name(directory), Path(tempfile.gettempdir())
    shutil.rmtree(here if here.name == name else here / name, ignore_errors=True)


def _name(directory: Path) -> str:
    return f"trainyard-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]}"
