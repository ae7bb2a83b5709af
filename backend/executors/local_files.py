"""The files of an attempt that lie on a disk of this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from backend.executors import files, log_limit
from backend.executors.attempt_files import AttemptFiles, Piece
from engine.checkpoint import store
from engine.checkpoint.store import Kept
from engine.launch import CHECKPOINTS, ended_steps
from engine.regular import open_regular, write_whole
from engine.telemetry.uploader import UploadEnd, Uploader


class LocalFiles(AttemptFiles):
    """Of one attempt."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)

    @property
    def directory(self) -> str:
        return str(self._directory)

    def there(self) -> bool:
        return self._directory.is_dir()

    def reachable(self) -> bool:
        jobs = self._directory.parents[1:2]  # above the job's folder, which may not be there yet
        return all(os.access(path, os.R_OK | os.W_OK | os.X_OK) for path in jobs)

    def size(self, name: str) -> int | None:
        path = self._path(name)
        try:
            return path.stat().st_size if path.is_file() else None
        except FileNotFoundError:
            return None

    def read(self, name: str, offset: int, most: int) -> Piece:
        with open_regular(self._path(name), root=self._directory) as file:
            size = file.seek(0, os.SEEK_END)
            start = max(0, size + offset) if offset < 0 else min(offset, size)
            content, end = log_limit.piece(file, start, most)
        return Piece(offset=start, content=content, next_offset=end, size=size)

    def write(self, name: str, content: bytes) -> None:
        path = self._path(name)
        if path.parent != self._directory:
            raise ValueError(
                f"{name} is in a folder: only files of the directory itself are written. Name one"
            )
        write_whole(path, content, sync=True)

    def failed_party(self) -> str | None:
        end = files.read_end(self._directory)
        return None if end is None else end.party

    def drain(self, url: str, timeout_s: float) -> UploadEnd | None:
        ingest = files.read_ingest(self._directory)
        if ingest is None:
            return None
        uploader = Uploader(self._directory / "spool", url, ingest.token, attempt=ingest.attempt)
        return uploader.finish(timeout_s=timeout_s)

    def remove(self, job_id: str) -> None:
        parent = self._directory.parent
        for path in (*([parent / CHECKPOINTS] if parent.name == job_id else []), self._directory):
            if path.exists():
                shutil.rmtree(path)
        with suppress(OSError):  # the job's own folder, once its last attempt's is gone
            parent.rmdir()

    def checkpoints(self) -> list[Kept]:
        return store.kept(self._directory.parent / CHECKPOINTS)

    def ended_steps(self) -> int | None:
        return ended_steps(self._directory)

    @contextmanager
    def local(self, step: int | None) -> Iterator[Path]:
        yield self._directory

    def _path(self, name: str) -> Path:
        parts = PurePosixPath(name).parts
        if not parts or parts[0] == "/" or ".." in parts:
            raise ValueError(f"{name!r} is no name below an attempt's directory. Name a file in it")
        return self._directory.joinpath(*parts)
