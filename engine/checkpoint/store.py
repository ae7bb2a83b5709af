"""The folder of a job's checkpoints. No torch here.

    step-0000000300/
      worker-0.safetensors   what one party has captured after 300 steps, written by itself
      worker-0.json          its length and CRC-32, or why it could not be written; written when that is on the disk
      manifest.json          all parts with their lengths and sums; written by worker 0 when all are there

A checkpoint is one when its manifest is there, names a part of every party, and every part is as the manifest says;
anything else is the rest of one that was being written when the attempt ended, or is damaged. CRC-32 finds what disks
and broken-off writes do to a file; it does not stop somebody who wants to deceive, who could write here anyway.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.regular import NotRegularError, open_regular, read_regular, write_whole

MANIFEST = "manifest.json"
SUFFIX = ".safetensors"
FORMAT = 1
_PREFIX = "step-"
_PIECE = 2**20
_MOST_BYTES = 2**24
"""Of a manifest, or of what a party says of its part."""
_LOOK_S = 0.05
logger = logging.getLogger(__name__)


class DamagedError(Exception):
    """A checkpoint that nobody can go on from, and why."""


@dataclass(frozen=True, kw_only=True)
class Written:
    """A part that is on the disk whole."""

    bytes: int
    crc32: int


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A checkpoint, as its manifest says."""

    step: int
    """It was made after so many steps."""
    bytes: int
    """Of all its parts."""
    written_unix_ns: int
    """When its manifest was."""


def check_written(path: Path, said: Any, *, root: Path) -> None:
    """Whether a file below `root` has the length and the sum that are `said` of it (`Written` as a dictionary, unless
    somebody else wrote that). Raises DamagedError."""
    count = total = 0
    try:
        with open_regular(path, root=root) as file:
            size = os.fstat(file.fileno()).st_size
            if not isinstance(said, dict) or said.get("bytes") != size:  # a file with gaps may be endless
                raise DamagedError(f"is not what was written: {size} bytes")
            while piece := file.read(_PIECE):
                count, total = count + len(piece), zlib.crc32(piece, total)
    except (OSError, ValueError) as error:
        raise DamagedError(f"cannot be read: {error}") from error
    if said != {"bytes": count, "crc32": total}:
        raise DamagedError(f"is not what was written: {count} bytes, CRC-32 {total}")


class Store:
    """One job's checkpoints, seen by one process."""

    def __init__(self, folder: Path, *, fingerprint: str, keep: int) -> None:
        """`fingerprint`: of the job: a checkpoint of another one is none. `keep`: so many of the newest stay."""
        self._folder = folder
        self._fingerprint = fingerprint
        self._keep = keep

    def begin(self, names: Collection[str]) -> int | None:
        """Before any party of a new attempt writes: the step of the newest checkpoint that is whole, and has the parts
        that are named; None where there is none. What is newer, or not whole, is removed, which the log says: the
        attempt makes these steps again."""
        for step in sorted(self._steps(), reverse=True):
            try:
                self.verify(step, names)
            except DamagedError as error:
                logger.warning("the checkpoint of step %d is not used, and removed: %s", step, error)
                self._remove(step)
            else:
                self._prune()
                return step
        return None

    def part(self, step: int, name: str) -> Path:
        """Where a party's part is; its folder is made."""
        place = self.place(step)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return place / f"{name}{SUFFIX}"

    def place(self, step: int) -> Path:
        """The folder of one checkpoint."""
        return self._folder / folder_name(step)

    def say(self, step: int, name: str, written: Written | str) -> None:
        """This party's part is on the disk, or (a text) why it is not."""
        said = (
            {"error": written}
            if isinstance(written, str)
            else {"bytes": written.bytes, "crc32": written.crc32}
        )
        write_whole(self.place(step) / f"{name}.json", json.dumps(said).encode(), sync=True)

    def complete(self, step: int, names: Collection[str], until_s: Callable[[], float]) -> str | None:
        """Worker 0: wait for all parts, write the manifest, and remove what is older than the newest. Answers why there
        is no checkpoint, None where there is one. `until_s()`: when to wait no longer, on the monotonic clock."""
        parts: dict[str, Written] = {}
        while missing := [name for name in names if name not in parts]:
            for name in missing:
                said = self._said(step, name)
                if said is None:
                    continue
                if "error" in said:
                    self._remove(step)
                    return f"{name} could not write its part: {said['error']}"
                parts[name] = Written(bytes=said["bytes"], crc32=said["crc32"])
            if len(parts) < len(names):
                if time.monotonic() > until_s():
                    self._remove(step)
                    return f"there was no word from {', '.join(sorted(set(names) - parts.keys()))}"
                time.sleep(_LOOK_S)
        manifest = {
            "format": FORMAT,
            "fingerprint": self._fingerprint,
            "step": step,
            "parts": {name: {"bytes": w.bytes, "crc32": w.crc32} for name, w in sorted(parts.items())},
        }
        write_whole(self.place(step) / MANIFEST, json.dumps(manifest, indent=1).encode(), sync=True)
        _sync(self.place(step))
        _sync(self._folder)
        self._prune()
        return None

    def _said(self, step: int, name: str) -> dict[str, Any] | None:
        try:
            said = json.loads(read_regular(self.place(step) / f"{name}.json", _MOST_BYTES, root=self._folder))
        except FileNotFoundError:
            return None
        except (NotRegularError, ValueError, RecursionError) as error:  # a user's code may write here
            return {"error": str(error)}
        whole = isinstance(said, dict) and (
            isinstance(said.get("error"), str)
            or (isinstance(said.get("bytes"), int) and isinstance(said.get("crc32"), int))
        )
        return said if whole else {"error": "what it said makes no sense"}

    def verify(self, step: int, names: Collection[str]) -> None:
        """Whether somebody can go on from it; `names`: of the parts that it must have. Raises DamagedError."""
        try:
            found = json.loads(read_regular(self.place(step) / MANIFEST, _MOST_BYTES, root=self._folder))
        except FileNotFoundError:
            raise DamagedError("its parts were being written when the attempt ended") from None
        except (OSError, ValueError, RecursionError) as error:
            raise DamagedError(f"its manifest cannot be read: {error}") from error
        if not isinstance(found, dict) or found.get("format") != FORMAT or found.get("step") != step:
            raise DamagedError("its manifest is none of this version")
        if found.get("fingerprint") != self._fingerprint:
            raise DamagedError("it belongs to another job, or to another plan of it")
        parts = found.get("parts")
        if not isinstance(parts, dict) or not parts:
            raise DamagedError("its manifest names no parts")
        names = set(names)
        if parts.keys() != names:
            missing, strange = (
                ", ".join(sorted(found)) for found in (names - parts.keys(), parts.keys() - names)
            )
            says = [
                missing and f"lacks {missing}",
                strange and f"names {strange}, which the job does not have",
            ]
            raise DamagedError(f"its manifest {' and '.join(filter(None, says))}")
        for name, said in parts.items():
            self._verify_part(step, name, said)

    def _verify_part(self, step: int, name: str, said: Any) -> None:
        try:
            check_written(self.place(step) / f"{name}{SUFFIX}", said, root=self._folder)
        except DamagedError as error:
            raise DamagedError(f"its part of {name} {error}") from error

    def _steps(self) -> Iterator[int]:
        if not self._folder.is_dir():
            return
        for path in self._folder.iterdir():
            number = path.name.removeprefix(_PREFIX)
            if number.isdecimal() and path == self.place(int(number)):  # whatever else lies here is not ours
                yield int(number)

    def _prune(self) -> None:
        """What is older than the newest goes, but for those that are kept: also what is left of one whose removal was
        broken off."""
        steps = sorted(self._steps())
        kept = [step for step in steps if (self.place(step) / MANIFEST).is_file()][-self._keep :]
        for step in steps:
            if kept and step not in kept and step < kept[-1]:
                self._remove(step)

    def _remove(self, step: int) -> None:
        """The manifest first: what is left after a kill within this is no checkpoint. A user's code may have put
        anything there; what cannot be removed stays, and is found damaged again."""
        place = self.place(step)
        with suppress(OSError):
            if place.is_symlink() or not place.is_dir():
                place.unlink(missing_ok=True)
            else:
                (place / MANIFEST).unlink(missing_ok=True)
        shutil.rmtree(place, ignore_errors=True)


def kept(folder: Path) -> list[Kept]:
    """The checkpoints in a folder, the newest first, as their manifests say. Whether they are whole is not
    looked at."""
    found = []
    for path in folder.glob(f"{_PREFIX}*/{MANIFEST}") if folder.is_dir() else ():
        try:
            with open_regular(path, root=folder) as file:
                written_unix_ns = os.fstat(file.fileno()).st_mtime_ns
                said = json.loads(file.read(_MOST_BYTES))
            size = sum(int(part["bytes"]) for part in said["parts"].values())
            step = int(said["step"])
        except (OSError, ValueError, OverflowError, RecursionError, TypeError, KeyError, AttributeError):
            continue  # it is being removed, or a user's code wrote it
        if path.parent.name == folder_name(step):
            found.append(Kept(step=step, bytes=size, written_unix_ns=written_unix_ns))
    return sorted(found, key=lambda each: -each.step)


def folder_name(step: int) -> str:
    """Of the checkpoint after so many steps."""
    return f"{_PREFIX}{step:010d}"


def _sync(folder: Path) -> None:
    """What has been renamed in a folder is so after a power cut, too."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
