"""Compile the data plane, with the machine's C compiler or the one in the wheel `ziglang`.

    python -m engine.transport.in_c

The library lies where Python keeps what it compiles, and its name tells what it was made from, so that a stale one is
never loaded.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

_FOLDER = Path(__file__).parent
FLAGS = "TRAINYARD_DATA_PLANE_FLAGS"
"""The environment variable with more flags for the compiler: a sanitizer's."""
_FLAGS = ("-std=c11", "-O2", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden")
_COMPILE_S = 300


class BuildError(RuntimeError):
    """The data plane cannot be compiled here; the message says why and what to do."""


def library_path() -> Path:
    """Where the library of these very sources is, or would be."""
    digest = hashlib.sha256(" ".join(_flags()).encode())
    for path in sorted([*_FOLDER.glob("*.c"), *_FOLDER.glob("*.h")]):
        digest.update(path.read_bytes())
    return _FOLDER / "__pycache__" / f"transport-{platform.machine()}-{digest.hexdigest()[:16]}.so"


def build() -> Path:
    """The library, made now unless it is there. Raises BuildError."""
    path = library_path()
    if path.exists():
        return path
    if not os.access(_FOLDER, os.W_OK):
        raise BuildError(
            f"{_FOLDER} cannot be written to: let who owns it run `python -m engine.transport.in_c`"
        )
    path.parent.mkdir(exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}")
    sources = [str(source) for source in sorted(_FOLDER.glob("*.c"))]
    command = [*_compiler(), *_flags(), "-o", str(unfinished), *sources]
    made = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_S, check=False)
    if made.returncode:
        raise BuildError(f"{' '.join(command)} failed: {made.stderr.strip()[-2000:]}")
    unfinished.replace(path)  # others may build at the same time
    return path


def _flags() -> list[str]:
    return [*_FLAGS, *os.environ.get(FLAGS, "").split()]


def _compiler() -> list[str]:
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return [found]
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc"]
    raise BuildError("no C compiler: install one, or `pip install ziglang`, which holds one")
