"""A real HTTP server in front of `accept` and `seal`, and an attempt to post to: what the ingest tests stand on."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from sqlalchemy.orm import Session

from backend.db import Database, uuid7
from backend.db.models import Attempt, Job
from backend.ingest import IngestError, accept, seal, token_sha256

TOKEN = "the attempt's own token"


def add_attempt(database: Database, parties: list[str] | None = None) -> int:
    """A job with one running attempt; its id."""

    def write(session: Session) -> int:
        job = Job(id=uuid7(), name="a job", spec={}, state="running", created_unix_ns=1)
        attempt = Attempt(
            job=job,
            number=1,
            state="running",
            parties=parties or [],
            token_sha256=token_sha256(TOKEN),
            directory="",
            created_unix_ns=1,
        )
        session.add(attempt)
        session.flush()
        return attempt.id

    return database.writer.run(write)


class PostServer:
    """Answers every POST on a port of its own choice, or on a given one, with what `answer` says: status and text."""

    def __init__(self, answer: Callable[[str, Message, bytes], tuple[int, str]], port: int = 0) -> None:
        """`answer` gets path, headers and body."""

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, text = answer(self.path, self.headers, body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class IngestServer(PostServer):
    """Serves one database."""

    def __init__(self, database: Database, port: int = 0) -> None:
        def answer(path: str, headers: Message, body: bytes) -> tuple[int, str]:
            token = headers["Authorization"].removeprefix("Bearer ")
            attempt, resource = path.removeprefix("/api/v1/attempts/").split("/")
            try:
                if resource == "batches":
                    done: object = accept(database, int(attempt), token, body)
                else:
                    last = {int(party): sequence for party, sequence in json.loads(body).items()}
                    done = seal(database, int(attempt), token, last)
            except IngestError as error:
                return error.status, json.dumps({"type": "/problems/ingest", "detail": str(error)})
            return 200, json.dumps(vars(done))

        super().__init__(answer, port)
