"""Model descriptions, made by a short process and cached: the server itself never imports torch or a user's
code. Where a process has loaded torch already (`forks.py`), one takes some tenths of a second, else some seconds.

The cache is keyed by the model's and the data's specification and by the state of the files behind them (names, sizes,
times of modification): those that name PyTorch's version, Python files of the model, all files of the data's directory
and of every path that the data's options name. So an edited model is described anew, and so are data that grew. Data
that a user's code finds elsewhere are not seen to change. Failures are not cached; only who asks again in the same
request is told the same.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from backend.services.asker import Asker
from backend.services.describing import SOURCE, Allowance, ask
from backend.services.errors import Busy, Left
from backend.services.forks import Forks
from backend.services.remember import Remembered
from backend.services.turns import Turns
from engine import errors
from engine.errors import UserError
from engine.launch import write_json
from engine.plan.description import ModelDescription
from engine.plan.job import SourceSpec
from engine.plan.on_disk import named
from engine.plan.serde import to_plain

logger = logging.getLogger(__name__)

ENGINE = Path(errors.__file__).resolve().parent
ALLOWED = Allowance(seconds=60, memory_bytes=4 * 2**30)
AT_ONCE = 2
"""Processes that describe at one time: each holds an interpreter with torch."""
WAITING = 6
"""Models that may wait for one of them; more are told to ask again. Who asks for a model that has its place already, as
the page does with several plans of it at once, needs none."""
ASKING = 24
"""Requests that may wait for a description, each on a thread that other requests need (there are 40)."""
RETRY_AFTER_S = 10
KEPT_LAYERS = 50_000
"""Of the descriptions kept in memory, all together: about 60 MB."""
KEPT_BYTES = 2**28
"""Of those kept on disk: what nobody asked for the longest goes first."""
_HELD_UP = "a model that takes long to build holds the others up"
LOOKED_AT = 20_000
"""So many names in a directory are looked at for changes: it may be `/`, while somebody types."""


class Descriptions:
    """Describes models; safe to call from many threads."""

    def __init__(self, cache_dir: Path, allowed: Allowance = ALLOWED) -> None:
        self._directory = cache_dir
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._allowed = allowed
        # A process that describes ends when our end closes, also because we were killed.
        self._lifeline, self._ours = Pipe(duplex=False)
        self.forks: Forks | None = None
        """Who has loaded what describing needs, and predicting, once `load` was called."""
        self._turns = Turns(
            at_once=AT_ONCE,
            waiting=WAITING,
            busy=f"{{places}} models are being described, or wait for it: {_HELD_UP}",
            retry_after_s=RETRY_AFTER_S,
        )
        self._asking = threading.BoundedSemaphore(ASKING)
        self._known: Remembered[ModelDescription] = Remembered(
            room=KEPT_LAYERS, size=lambda found: 1 + len(found.layers)
        )

    def load(self) -> None:
        """Have a process load what describing needs, in the background: each description is a fork of it from then on,
        and takes a tenth of the time."""
        self.forks = Forks(SOURCE, _engine)

    def describe(
        self, model: SourceSpec, data: SourceSpec, precision: str, asker: Asker | None = None
    ) -> ModelDescription:
        """The description of `model` on samples of `data` in `precision` (as in `TrainingSpec`).

        Raises UserError where the model or the data cannot be imported, built or run, with the reason, Busy where too
        many others are being described, and Left where the asker is gone. Without an asker it is made to its end: a
        page that asks while somebody types leaves with every letter, and comes back for the same model.
        """
        request = {"model": to_plain(model), "data": to_plain(data), "precision": precision}
        key = key_of(request, model, data)
        if (known := self._known.peek(key)) is not None:
            return known
        if asker is not None and key in asker.refused:
            raise asker.refused[key]
        if not self._asking.acquire(blocking=False):
            raise Busy(
                f"{ASKING} requests wait for models to be described: {_HELD_UP}. Ask again in {RETRY_AFTER_S} s",
                retry_after_s=RETRY_AFTER_S,
            )
        try:
            return self._shared(key, request, asker)
        except UserError as error:
            if asker is not None:
                asker.refused[key] = error
            raise
        finally:
            self._asking.release()

    def close(self) -> None:
        """End what is being described: the server ends. (Where it is killed, the system closes the pipe.)"""
        self._ours.close()
        if self.forks is not None:
            self.forks.close()

    def _shared(self, key: str, request: dict[str, Any], asker: Asker | None) -> ModelDescription:
        """Made once for all who ask at the same time; where the one that it is made for leaves, for the next one."""
        while True:
            try:
                return self._known.get(key, lambda: self._load(key) or self._make(key, request, asker))
            except Left:
                if asker is not None:
                    asker.check()

    def _load(self, key: str) -> ModelDescription | None:
        path = self._directory / f"{key}.json"
        try:
            found = ModelDescription.from_dict(json.loads(path.read_text(encoding="utf-8")))
            with suppress(OSError):  # gone meanwhile, or on a disk that takes nothing
                os.utime(path)
            return found
        except FileNotFoundError:
            return None
        except ValueError as error:  # written by another version: made anew
            logger.warning("%s is not a description that this version reads (%s)", path, error)
            return None

    def _make(self, key: str, request: dict[str, Any], asker: Asker | None) -> ModelDescription:
        with self._turns.turn(asker):
            subject = str(request["model"]["name"] or request["model"]["entrypoint"])
            answer = ask(request, subject, self._allowed, self._lifeline, asker=asker, forks=self.forks)
        description = ModelDescription.from_dict(answer)
        write_json(self._directory / f"{key}.json", description.to_dict())
        self._forget()
        return description

    def _forget(self) -> None:
        """Delete what is beyond the room on disk."""
        room = KEPT_BYTES
        for _, size, path in sorted(self._kept(), reverse=True):
            room -= size
            if room < 0:
                path.unlink(missing_ok=True)

    def _kept(self) -> Iterable[tuple[int, int, Path]]:
        for path in self._directory.iterdir():
            with suppress(OSError):
                stat = path.stat()
                yield stat.st_mtime_ns, stat.st_size, path


def key_of(request: dict[str, Any], model: SourceSpec, data: SourceSpec) -> str:
    """Of a request, and of the state of all files that its answer may follow from."""
    code = [ENGINE / "models", ENGINE / "inputs"]
    if model.directory:
        code.append(Path(model.directory))
    files = [Path(data.directory)] if data.directory else []
    content = [
        request,
        list(_pytorch()),
        [list(_state(folder, ".py")) for folder in code],
        [list(_state(folder, "")) for folder in files],
        [list(_grown(path)) for _, path in named(data.options)],
    ]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _engine() -> tuple[tuple[str, int, int], ...]:
    """The state of the engine's code, and of PyTorch."""
    return (*_state(ENGINE, ".py"), *_pytorch())


def _pytorch() -> Iterable[tuple[str, int, int]]:
    """The state of PyTorch where that is installed: a new version writes these files anew. Nothing is loaded."""
    found = find_spec("torch")
    if found is not None and found.origin is not None:
        torch = Path(found.origin)
        yield from (*_grown(torch), *_grown(torch.with_name("version.py")))


def _grown(path: Path) -> Iterable[tuple[str, int, int]]:
    """The state of a file, or of all below a folder: also the folders' own, which changes as files come and go, so that
    more files than are looked at are seen to."""
    with suppress(OSError):
        stat = path.stat()
        yield str(path), 0 if path.is_dir() else stat.st_size, stat.st_mtime_ns
        if path.is_dir():
            for entry in sorted(os.scandir(path), key=lambda entry: entry.name):
                if entry.is_dir() and not entry.name.startswith("."):
                    yield entry.path, 0, entry.stat().st_mtime_ns
            yield from _state(path, "")


def _state(folder: Path, suffix: str) -> Iterable[tuple[str, int, int]]:
    """Name, size and time of the files below `folder` whose names end in `suffix`, in a fixed order."""
    looked_at = 0
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
        looked_at += len(folders) + len(names)
        for path in (Path(where, name) for name in sorted(names) if name.endswith(suffix)):
            with suppress(OSError):  # gone meanwhile, or a link to nothing
                stat = path.stat()
                yield str(path), stat.st_size, stat.st_mtime_ns
        if looked_at > LOOKED_AT:
            return
