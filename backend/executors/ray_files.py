"""The files of an attempt that lie on nodes of a Ray cluster: each question goes to actors there."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from backend.executors import files
from backend.executors.attempt_files import AttemptFiles, FilesAwayError, Piece
from backend.executors.ray_cluster import AwayError, RayCluster
from backend.executors.ray_gang import Host, RayGang
from engine.checkpoint.store import Kept
from engine.launch import LAUNCH
from engine.telemetry.uploader import UploadEnd

ANSWER_S = 10.0
"""How long a node may take to answer for one file."""
SOON_S = 1.0
"""The same where a transaction waits."""
_PIECE = 4 * 2**20
_ENDED_WITH = (LAUNCH, "result/model.pt", "result/summary.json")


class RayFiles(AttemptFiles):
    """Of one attempt."""

    def __init__(self, cluster: RayCluster, directory: str) -> None:
        self._cluster = cluster
        self._directory = Path(directory)

    @property
    def directory(self) -> str:
        return str(self._directory)

    def there(self) -> bool:
        # All are asked: what is deleted on one node must not be left on another that is away.
        said = [self._ask(host, "there") for host in self._hosts()]
        return any(said)

    def reachable(self) -> bool:
        try:
            return all(self._ask(host, "reachable", within_s=SOON_S) for host in self._hosts())
        except FilesAwayError:
            return False

    def size(self, name: str) -> int | None:
        return next((size for size in self._found("size", name) if size is not None), None)

    def read(self, name: str, offset: int, most: int) -> Piece:
        piece: Piece | None = next(self._found("read", name, offset, most), None)
        if piece is None:
            raise FileNotFoundError(f"{self._directory}: no node has {name}")
        return piece

    def write(self, name: str, content: bytes) -> None:
        hosts = self._hosts()
        if not hosts:
            raise FileNotFoundError(f"{self._directory} was never launched: no node has files of it")
        for host in hosts:
            self._ask(host, "write", name, content)

    def failed_party(self) -> str | None:
        end = files.read_end(self._directory)
        return None if end is None else end.party

    def drain(self, url: str, timeout_s: float) -> UploadEnd | None:
        gang = RayGang.read(self._directory)
        if gang is None:
            return None
        last: dict[int, int] = {}
        for host in gang.hosts:
            actor = self._keeper(host)
            sent = self._answer(host, actor.send.remote(gang.place, url, timeout_s), timeout_s + ANSWER_S)
            if sent is not None and sent.problem is not None:
                return UploadEnd(
                    sealed=False, last_sequences=last, problem=sent.problem, refused=sent.refused
                )
            last.update({} if sent is None else sent.last_sequences)
        host = gang.hosts[0]
        asked = self._keeper(host).seal.remote(gang.place, last, url)
        end: UploadEnd | None = self._answer(host, asked, timeout_s + ANSWER_S)
        return end

    def remove(self, job_id: str) -> None:
        for host in self._hosts():
            self._ask(host, "remove", job_id)
        if self._directory.exists():
            shutil.rmtree(self._directory)
        with suppress(OSError):  # the job's own folder, once its last attempt's is gone
            self._directory.parent.rmdir()

    def checkpoints(self) -> list[Kept]:
        return []  # a job with some is refused

    def ended_steps(self) -> int | None:
        return next((found for found in self._found("ended_steps") if found is not None), None)

    @contextmanager
    def local(self, step: int | None) -> Iterator[Path]:
        """Of what the attempt ended with: it has no checkpoints."""
        with tempfile.TemporaryDirectory(prefix="trainyard-") as folder:
            for name in _ENDED_WITH:
                with suppress(FileNotFoundError):
                    self._copy(name, Path(folder) / name)
            yield Path(folder)

    def _copy(self, name: str, target: Path) -> None:
        piece = self.read(name, 0, _PIECE)
        target.parent.mkdir(exist_ok=True)
        with target.open("wb") as file:
            while piece.next_offset > piece.offset:
                file.seek(piece.offset)
                file.write(piece.content)
                piece = self.read(name, piece.next_offset, _PIECE)

    def _found(self, method: str, *arguments: Any) -> Iterator[Any]:
        """What each node answers that has what is asked for. One that is away hides nothing of the others: its error is
        raised once all have been asked."""
        away = None
        for host in self._hosts():
            try:
                yield self._ask(host, method, *arguments)
            except FileNotFoundError:
                continue
            except FilesAwayError as error:
                away = away or error
        if away is not None:
            raise away

    def _hosts(self) -> tuple[Host, ...]:
        gang = RayGang.read(self._directory)
        return () if gang is None else gang.hosts

    def _ask(self, host: Host, method: str, *arguments: Any, within_s: float = ANSWER_S) -> Any:
        gang = RayGang.read(self._directory)
        assert gang is not None, "it has hosts"
        return self._answer(
            host, self._keeper(host).ask_files.remote(gang.place, method, *arguments), within_s
        )

    def _keeper(self, host: Host) -> Any:
        try:
            return self._cluster.keeper(host.address)
        except AwayError as error:
            raise FilesAwayError(self.directory, f"node {host.address}", str(error)) from error

    def _answer(self, host: Host, asked: Any, timeout_s: float) -> Any:
        try:
            return self._cluster.answer(asked, timeout_s)
        except (AwayError, self._cluster.ray.exceptions.RayActorError) as error:
            why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise FilesAwayError(self.directory, f"node {host.address}", why) from error
