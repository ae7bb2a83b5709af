"""Between supervisors and server: forwards their posts, and remembers every batch that the server acknowledged.

It survives the server, so what it heard the server promise can be compared with what the server has later.
"""

from __future__ import annotations

import http.client
import json
import re
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from engine.telemetry.batch import check

TIMEOUT_S = 30.0
BATCHES = re.compile(r"/api/v1/attempts/(\d+)/batches$")
Key = tuple[int, int, int]
"""Attempt, party, sequence."""


class Witness:
    """Listens on a port of its own from the beginning to the end of a run."""

    def __init__(self, server_port: int) -> None:
        self.acknowledged: dict[Key, str] = {}
        """To the hash of the content that was sent."""
        handler = type("Bound", (_Handler,), {"witness": self, "server_port": server_port})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="witness", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where supervisors send their telemetry."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def heard(self, path: str, body: bytes, answer: bytes) -> None:
        """The server said yes."""
        if found := BATCHES.search(path):
            said: dict[str, Any] = json.loads(answer)
            key = (int(found[1]), int(said["party"]), int(said["sequence"]))
            self.acknowledged[key] = check(body)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    witness: ClassVar[Witness]
    server_port: ClassVar[int]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        passed = {name: self.headers[name] for name in ("Authorization", "Content-Type")}
        upstream = http.client.HTTPConnection("127.0.0.1", self.server_port, timeout=TIMEOUT_S)
        try:
            upstream.request("POST", self.path, body, passed)
            response = upstream.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException):
            self.close_connection = True  # the server is away: nobody answers
            return
        finally:
            upstream.close()
        if 200 <= response.status < 300:
            self.witness.heard(self.path, body, answer)
        with suppress(OSError):  # who asked may have been killed meanwhile
            self.send_response(response.status)
            self.send_header("Content-Type", response.headers.get("Content-Type", "application/json"))
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: rounds tell their own story."""
