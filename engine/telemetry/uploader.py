"""From the spool to the server. Runs in the attempt's supervisor, never in a training process.

So training has no HTTP in it, a stalled server cannot stall it, and what a dead worker left in its spool
still arrives. Batches go in order per party; a batch is deleted when the server has acknowledged it, which it
does after its commit; repeating one is harmless.

The server may restart meanwhile, on another port, and a stranger may answer where it was. So only an
acknowledgement of this very batch counts as one, only our service's own words about it as a refusal, and after
each failure the address is asked for again.
"""

from __future__ import annotations

import http.client
import json
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from engine.telemetry.batch import Batch, encode
from engine.telemetry.batch_limits import MOST_AHEAD
from engine.telemetry.spool import SpoolReader, parties

REQUEST_TIMEOUT_S = 30.0
BACK_OFF_S = (0.1, 5.0)
"""First and longest pause while the server is away; doubled in between."""
MOST_READ = 2**20
"""Bytes of an answer."""
PROBLEM = "/problems/"
"""What the type of every refusal of our service begins with."""
UNKNOWN = 401
"""Another server of ours may have the port: final only once the attempt has ended."""
FINAL = {
    400: "the server cannot read it",
    UNKNOWN: "the attempt's token is not valid",
    409: "it does not follow from what the server holds",
    410: "the attempt is sealed: it takes no more batches",
    413: "it is larger than the server accepts",
    422: "the server cannot read it",
}
"""Answers of our service that sending again does not change."""
logger = logging.getLogger(__name__)


class UploadRefusedError(RuntimeError):
    """The server will not take this, now or later."""


@dataclass(frozen=True, kw_only=True)
class UploadEnd:
    """How the upload ended."""

    sealed: bool
    last_sequences: Mapping[int, int]
    """Party number to the last sequence number that was spooled."""
    problem: str | None = None
    """Why it is not sealed; the batches are still in the spool."""
    refused: bool = False
    """The server will never take them: sending again is of no use."""


class Uploader:
    """Posts what appears in a spool directory, on a thread of its own, until `finish`."""

    def __init__(
        self,
        directory: Path,
        url: str,
        token: str,
        *,
        attempt: int,
        poll_s: float = 0.1,
        moved: Callable[[], str | None] | None = None,
    ) -> None:
        """`directory` is the attempt's spool, `url` the server's address (`http://127.0.0.1:8000`), `token`
        the attempt's ingest-only token. `moved` is asked for the server's present address after each failure;
        None: as before. Raises ValueError for another kind of address."""
        self._server = _Server.at(url)
        self._directory = directory
        self._moved = moved
        self._path = f"/api/v1/attempts/{attempt}"
        self._token = token
        self._attempt = attempt
        self._poll_s = poll_s
        self._connection: http.client.HTTPConnection | None = None
        self._refused: UploadRefusedError | None = None
        self._away: str | None = None
        self._finishing = threading.Event()
        self._seals = True
        self._wake = threading.Event()
        self._abort = threading.Event()
        self._outcome: UploadEnd | None = None
        self._thread = threading.Thread(target=self._loop, name="telemetry-upload", daemon=True)
        self._thread.start()

    def finish(self, *, timeout_s: float, seal: bool = True) -> UploadEnd:
        """Call once the gang has ended: send what is left, then seal. Returns within about `timeout_s`,
        sealed or with the reason why not (then a later uploader on the same directory goes on from there). Without
        `seal` the end has no problem once everything is sent: of an attempt on several hosts, each knows its own
        parties only, and who knows all of them seals (`seal`)."""
        self._seals = seal
        self._finishing.set()
        self._wake.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self._abort.set()
            self._wake.set()
            self._thread.join(REQUEST_TIMEOUT_S)
        if self._outcome is not None:
            return self._outcome
        problem = str(self._refused) if self._refused else f"not done after {timeout_s:g} s: {self._away}"
        return UploadEnd(
            sealed=False,
            last_sequences=self._last_sequences(),
            problem=problem,
            refused=self._refused is not None,
        )

    # --- the thread ---

    def _loop(self) -> None:
        pause = BACK_OFF_S[0]
        while not self._abort.is_set():
            finishing = self._finishing.is_set()  # read before looking: what is spooled until then is seen
            try:
                self._send_all()
                if self._abort.is_set():
                    return
                if finishing and self._seals:
                    self._seal(self._last_sequences())
                    return
                if finishing:
                    self._outcome = UploadEnd(sealed=False, last_sequences=self._last_sequences())
                    self._disconnect()
                    return
                pause = BACK_OFF_S[0]
                self._away = None
                self._wait(self._poll_s)
            except UploadRefusedError as error:
                self._refused = error
                logger.error("telemetry of attempt %d: %s", self._attempt, error)
                return
            except (OSError, http.client.HTTPException, _AwayError) as error:
                if pause == BACK_OFF_S[0] * 2:  # the first failure may be a connection that idled too long
                    logger.warning("telemetry waits in the spool, the server is away: %s", error)
                self._away = f"{type(error).__name__}: {error}"
                self._disconnect()
                self._look_again()
                self._abort.wait(pause)
                pause = min(pause * 2, BACK_OFF_S[1])

    def _wait(self, seconds: float) -> None:
        self._wake.wait(seconds)
        if not self._abort.is_set():
            self._wake.clear()

    def _send_all(self) -> None:
        for reader in parties(self._directory):
            due = reader.acknowledged() + 1
            for sequence in reader.sequences():
                if self._abort.is_set():
                    return
                if sequence < due:  # the server has it; we were stopped before deleting
                    reader.delete(sequence)
                    continue
                if sequence > due + MOST_AHEAD:  # no batch of ours: a user's code may write here
                    reader.set_aside(sequence)
                    continue
                body = reader.read(sequence)
                if body is None:  # torn: cut, unless more follow, whose numbers must stay without gaps
                    continue
                for lost in range(due, sequence):
                    self._post_batch(reader, lost, self._lost(reader, lost))
                self._post_batch(reader, sequence, body)
                due = sequence + 1

    def _lost(self, reader: SpoolReader, sequence: int) -> bytes:
        """An empty batch in place of a torn one, so that sequence numbers stay without gaps."""
        logger.error("batch %d of party %d was torn on disk and is lost", sequence, reader.party)
        return encode(Batch(attempt=self._attempt, party=reader.party, name="lost", sequence=sequence))

    def _post_batch(self, reader: SpoolReader, sequence: int, body: bytes) -> None:
        what = f"batch {sequence} of party {reader.party}"
        answer = self._post("batches", body, "application/octet-stream", what)
        if (answer.get("party"), answer.get("sequence")) != (reader.party, sequence):
            raise _AwayError(f"{what}: the answer is not our service's: {answer}")
        reader.acknowledge(sequence)

    def _last_sequences(self) -> dict[int, int]:
        return {reader.party: reader.last_sequence() for reader in parties(self._directory)}

    def _seal(self, last: Mapping[int, int]) -> None:
        body = json.dumps({str(party): sequence for party, sequence in last.items()}).encode()
        answer = self._post("seal", body, "application/json", "the seal")
        if "batches" not in answer:
            raise _AwayError(f"the seal: the answer is not our service's: {answer}")
        self._outcome = UploadEnd(sealed=True, last_sequences=last)
        self._disconnect()

    def seal(self, last_sequences: Mapping[int, int]) -> UploadEnd:
        """After `finish` without a seal, on each host: seal the attempt with every party's last sequence number."""
        try:
            self._seal(last_sequences)
        except (OSError, http.client.HTTPException, _AwayError, UploadRefusedError) as error:
            refused = isinstance(error, UploadRefusedError)
            return UploadEnd(sealed=False, last_sequences=last_sequences, problem=str(error), refused=refused)
        return UploadEnd(sealed=True, last_sequences=last_sequences)

    def _post(self, resource: str, body: bytes, content_type: str, what: str) -> Mapping[str, Any]:
        """What the server says about it; empty where no service of ours speaks so."""
        if self._connection is None:
            self._connection = self._server.connection()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content_type}
        self._connection.request("POST", f"{self._server.path}{self._path}/{resource}", body, headers)
        response = self._connection.getresponse()
        status, text = response.status, response.read(MOST_READ).decode(errors="replace")
        if not response.isclosed():  # a stranger with a long page
            self._disconnect()
        answer = _object(text)
        if 200 <= status < 300:
            return answer
        ours = str(answer.get("type")).startswith(PROBLEM)
        if ours and status in FINAL and (status != UNKNOWN or self._finishing.is_set()):
            raise UploadRefusedError(f"{what} refused ({status}): {FINAL[status]}. {text[:2000]}")
        raise _AwayError(f"{what}: the server answered {status}: {text[:2000]}")

    def _look_again(self) -> None:
        """A server that restarted may have another address."""
        try:
            url = self._moved() if self._moved else None
            if url is not None:
                self._server = _Server.at(url)
        except (OSError, ValueError) as error:
            logger.warning("the server's address stays as it was: %s", error)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@dataclass(frozen=True, kw_only=True)
class _Server:
    """Where to connect."""

    secure: bool
    host: str
    port: int | None
    path: str

    @classmethod
    def at(cls, url: str) -> _Server:
        """Raises ValueError for what is no address of a server."""
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"url = {url!r}: not an address of a server. Give http://host:port")
        return cls(
            secure=parts.scheme == "https",
            host=parts.hostname,
            port=parts.port,
            path=parts.path.rstrip("/"),
        )

    def connection(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self.secure else http.client.HTTPConnection
        return kind(self.host, self.port, timeout=REQUEST_TIMEOUT_S)


def _object(text: str) -> Mapping[str, Any]:
    """A JSON object; empty where it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):  # a stranger may send anything
        return {}
    return found if isinstance(found, dict) else {}


class _AwayError(RuntimeError):
    """The server cannot take it now, or somebody else answers in its place."""
