"""From the spool to the server. Runs in the attempt's supervisor, never in a training process.

So training has no HTTP in it, a stalled server cannot stall it, and what a dead worker left in its spool
still arrives. Batches go in order per party; a batch is deleted when the server has acknowledged it, which it
does after its commit; repeating one is harmless.
"""

from __future__ import annotations

import http.client
import json
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from engine.telemetry.batch import Batch, encode
from engine.telemetry.spool import SpoolReader, parties

REQUEST_TIMEOUT_S = 30.0
BACK_OFF_S = (0.1, 5.0)
"""First and longest pause while the server is away; doubled in between."""
FINAL = {
    400: "the server cannot read it",
    401: "the attempt's token is not valid",
    403: "the attempt's token is not valid",
    404: "the server does not know this attempt",
    409: "the server holds other content under the same number",
    410: "the attempt is sealed: it takes no more batches",
    413: "it is larger than the server accepts",
    422: "the server cannot read it",
}
"""Answers that sending again does not change."""
logger = logging.getLogger(__name__)


class UploadRefusedError(RuntimeError):
    """The server will not take this, now or later."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
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

    def __init__(self, directory: Path, url: str, token: str, *, attempt: int, poll_s: float = 0.1) -> None:
        """`directory` is the attempt's spool, `url` the server's address (`http://127.0.0.1:8000`), `token`
        the attempt's ingest-only token. Raises ValueError for another kind of address."""
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"url = {url!r}: not an address of a server. Give http://host:port")
        self._directory = directory
        self._connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._address = (parts.hostname, parts.port)
        self._path = f"{parts.path.rstrip('/')}/api/v1/attempts/{attempt}"
        self._token = token
        self._attempt = attempt
        self._poll_s = poll_s
        self._connection: http.client.HTTPConnection | None = None
        self._refused: UploadRefusedError | None = None
        self._away: str | None = None
        self._finishing = threading.Event()
        self._wake = threading.Event()
        self._abort = threading.Event()
        self._outcome: Outcome | None = None
        self._thread = threading.Thread(target=self._loop, name="telemetry-upload", daemon=True)
        self._thread.start()

    def finish(self, *, timeout_s: float) -> Outcome:
        """Call once the gang has ended: send what is left, then seal. Returns within about `timeout_s`,
        sealed or with the reason why not (then a later uploader on the same directory goes on from there)."""
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
        return Outcome(
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
                if finishing:
                    self._seal()
                    return
                pause = BACK_OFF_S[0]
                self._away = None
                self._wait(self._poll_s)
            except UploadRefusedError as error:
                self._refused = error
                logger.error("telemetry of attempt %d: %s", self._attempt, error)
                return
            except (OSError, http.client.HTTPException, _BusyError) as error:
                if pause == BACK_OFF_S[0] * 2:  # the first failure may be a connection that idled too long
                    logger.warning("telemetry waits in the spool, the server is away: %s", error)
                self._away = f"{type(error).__name__}: {error}"
                self._disconnect()
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
        self._post("batches", body, "application/octet-stream", what)
        reader.acknowledge(sequence)

    def _last_sequences(self) -> dict[int, int]:
        return {reader.party: reader.last_sequence() for reader in parties(self._directory)}

    def _seal(self) -> None:
        last = self._last_sequences()
        body = json.dumps({str(party): sequence for party, sequence in last.items()}).encode()
        self._post("seal", body, "application/json", "the seal")
        self._outcome = Outcome(sealed=True, last_sequences=last)
        self._disconnect()

    def _post(self, resource: str, body: bytes, content_type: str, what: str) -> None:
        if self._connection is None:
            host, port = self._address
            self._connection = self._connect(host, port, timeout=REQUEST_TIMEOUT_S)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content_type}
        self._connection.request("POST", f"{self._path}/{resource}", body, headers)
        response = self._connection.getresponse()
        answer = response.read()[:2000].decode(errors="replace")
        if 200 <= response.status < 300:
            return
        if response.status in FINAL:
            raise UploadRefusedError(
                f"{what} refused ({response.status}): {FINAL[response.status]}. {answer}"
            )
        raise _BusyError(f"{what}: the server answered {response.status}: {answer}")

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _BusyError(RuntimeError):
    """The server is there, but cannot take it now."""
