"""The files of an attempt that lie on nodes of a Ray cluster: each question goes to actors there."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from backend.executors import files
from backend.executors.attempt_files import AttemptFiles, FilesAwayError, Piece
from backend.executors.local_files import LocalFiles
from backend.executors.ray_cluster import AwayError, RayCluster
from backend.executors.ray_gang import Host, RayGang
from engine.checkpoint.store import Kept
from engine.launch import LAUNCH
from engine.telemetry.uploader import UploadEnd

ANSWER_S = 10.0
"""How long a node may take to answer for one file."""
_PIECE = 4 * 2**20
_ENDED_WITH = (LAUNCH, "result/model.pt", "result/summary.json")


def _never(_answer: Any) -> bool:
    return False


def _has(answer: Any) -> bool:
    return answer is not None and not isinstance(answer, Exception)


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
        return any(self._all("there"))

    def reachable(self) -> bool:
        # A node that is out of reach is waited for, or lost: whoever looks after the attempt says so.
        return LocalFiles(self.directory).reachable() and self._cluster.outage() is None

    def size(self, name: str) -> int | None:
        found: int | None = self._found("size", name)
        return found

    def read(self, name: str, offset: int, most: int) -> Piece:
        piece: Piece | None = self._found("read", name, offset, most)
        if piece is None:
            raise FileNotFoundError(f"{self._directory}: no node has {name}")
        return piece

    def write(self, name: str, content: bytes) -> None:
        if not self._all("write", name, content):
            raise FileNotFoundError(f"{self._directory} was never launched: no node has files of it")

    def failed_party(self) -> str | None:
        end = files.read_end(self._directory)
        return None if end is None else end.party

    def drain(self, url: str, timeout_s: float) -> UploadEnd | None:
        gang = RayGang.read(self._directory)
        if gang is None or not gang.hosts:
            return None
        within_s = timeout_s + ANSWER_S
        last: dict[int, int] = {}
        said = self._each(gang, lambda actor: actor.send.remote(gang.place, url, timeout_s), within_s)
        for sent in _or_raise(said):
            if sent is not None and sent.problem is not None:
                return UploadEnd(
                    sealed=False, last_sequences=last, problem=sent.problem, refused=sent.refused
                )
            last.update({} if sent is None else sent.last_sequences)
        first = replace(gang, spots=gang.spots[:1])
        end: UploadEnd | None
        (end,) = _or_raise(
            self._each(first, lambda actor: actor.seal.remote(gang.place, last, url), within_s)
        )
        return end

    def remove(self, job_id: str) -> None:
        self._all("remove", job_id)
        if self._directory.exists():
            shutil.rmtree(self._directory)
        with suppress(OSError):  # the job's own folder, once its last attempt's is gone
            self._directory.parent.rmdir()

    def checkpoints(self) -> list[Kept]:
        return []  # a job with some is refused so far

    def ended_steps(self) -> int | None:
        found: int | None = self._found("ended_steps")
        return found

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

    def _found(self, method: str, *arguments: Any) -> Any:
        """What the first node answers that has what is asked for; None where none has. One that is away hides nothing
        of the others: its error is raised where none of them has it."""
        said = self._said(method, *arguments, enough=_has)
        found = next((one for one in said if _has(one)), None)
        if found is None:
            _or_raise([one for one in said if not isinstance(one, FileNotFoundError)])
        return found

    def _all(self, method: str, *arguments: Any) -> list[Any]:
        """What every node answers. The first one's error is raised once all were asked, and have done it."""
        return _or_raise(self._said(method, *arguments))

    def _said(self, method: str, *arguments: Any, enough: Callable[[Any], bool] = _never) -> list[Any]:
        """What each node of the attempt answers, or the error that it met."""
        gang = RayGang.read(self._directory)
        if gang is None:
            return []
        return self._each(
            gang, lambda actor: actor.ask_files.remote(gang.place, method, *arguments), ANSWER_S, enough
        )

    def _each(
        self,
        gang: RayGang,
        ask: Callable[[Any], Any],
        within_s: float,
        enough: Callable[[Any], bool] = _never,
    ) -> list[Any]:
        """Ask all nodes side by side: one that does not answer holds up no other. Each one's answer, or its error, as
        soon as all are there, or one with which that is `enough`."""
        asked, said = dict[Any, Host](), dict[Host, Any]()
        for host in gang.hosts:
            try:
                asked[ask(self._cluster.keeper(host.address))] = host
            except Exception as error:  # AwayError, and many kinds of Ray's
                said[host] = self._away(host, error)
        deadline = time.monotonic() + within_s
        while asked and not any(enough(one) for one in said.values()):
            ready = self._cluster.ready(list(asked), max(0.0, deadline - time.monotonic()), least=1)
            for one in ready:
                host = asked.pop(one)
                said[host] = self._answer(host, one)
            if not ready:
                late = AwayError(f"it has not answered for {within_s:g} s")
                said |= {host: self._away(host, late) for host in asked.values()}
                break
        return [said[host] for host in gang.hosts if host in said]

    def _answer(self, host: Host, asked: Any) -> Any:
        try:
            return self._cluster.answer(asked, 0)
        except (AwayError, self._cluster.ray.exceptions.RayError) as error:
            return self._away(host, error)
        except Exception as error:  # what the node's own disk said
            return error

    def _away(self, host: Host, error: Exception) -> FilesAwayError:
        why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        return FilesAwayError(self.directory, f"node {host.address}", why)


def _or_raise(said: list[Any]) -> list[Any]:
    """Answers, unless one is an error."""
    for one in said:
        if isinstance(one, Exception):
            raise one
    return said
