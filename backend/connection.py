"""A connection to a server: its address, its token, what is asked and what it answers or refuses."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import IO, Any, NoReturn, Self, TypeVar

import httpx
from pydantic import BaseModel, TypeAdapter, ValidationError

from backend.access import token as tokens
from backend.schemas.problems import Problem

DEFAULT_URL = "http://127.0.0.1:8000"
PREFIX = "/api/v1"
PATIENCE_S = 60.0
"""How long to ask again when a server that had answered does not: it may be restarting."""
AGAIN_S = 0.5
M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


class ServerUnreachableError(ConnectionError):
    """Nobody answers at the address."""


class ApiError(RuntimeError):
    """The service refused; `problem` names every field with its value, the rule and the remedy."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem
        self.status = problem.status


class Connection:
    """To one server. Close it, or use it as a context manager."""

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        timeout_s: float = 200.0,
        on_away: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`url`: the server's address; default: $TRAINYARD_URL, else http://127.0.0.1:8000. `token`: the server's,
        where it asks for one; default: $TRAINYARD_TOKEN, else what the file $TRAINYARD_TOKEN_FILE holds. `on_away`
        hears, in a sentence, that the server is gone and waited for.

        The time limit is long because a first submission of a model waits for its description. Raises UserError where
        the token cannot be one.
        """
        self._on_away = on_away
        self._answered = False
        """Somebody has been at the address: it is not a mistyped one."""
        given = (url or os.environ.get("TRAINYARD_URL") or DEFAULT_URL).rstrip("/")
        self.url = given if "://" in given else f"http://{given}"
        # trust_env: a proxy that is meant for the internet has no business between us and loopback.
        token = tokens.from_environment() if token is None else tokens.checked(token)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        # verify: without TLS there is no certificate to check, and those that are trusted take a command 50 ms to load.
        self._http = httpx.Client(
            base_url=self.url + PREFIX, headers=headers, timeout=timeout_s, trust_env=False,
            verify=not self.url.lower().startswith("http://"),
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def patiently(self, ask: Callable[[], T], *, until: float | None = None) -> T:
        """What `ask` answers, which only reads; while a server that had answered before is away, it is asked again
        for PATIENCE_S, though not beyond `until` of the monotonic clock. Then raises ServerUnreachableError."""
        deadline = None
        while True:
            try:
                return ask()
            except ServerUnreachableError:
                now = time.monotonic()
                if deadline is None:
                    deadline = now + PATIENCE_S if until is None else min(until, now + PATIENCE_S)
                    if self._answered and now < deadline:
                        self._on_away(
                            f"no answer from {self.url}: waiting {deadline - now:.0f} s for the server"
                        )
                if not self._answered or now >= deadline:
                    raise
                time.sleep(AGAIN_S)

    def _read(self, kind: type[M], method: str, path: str, **request: Any) -> M:
        return kind.model_validate_json(self._send(method, path, **request).content)

    def _list(self, kind: type[M], path: str) -> list[M]:
        return TypeAdapter(list[kind]).validate_json(self._send("GET", path).content)  # type: ignore[valid-type]

    def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        with self._answering(method, path, **request) as answer:
            answer.read()
        return answer

    @contextmanager
    def _answering(
        self, method: str, path: str, *, params: Mapping[str, Any] | None = None, **request: Any
    ) -> Iterator[httpx.Response]:
        """An answer whose body is yet to be read. Raises ApiError for one that refuses."""
        given = {name: value for name, value in (params or {}).items() if value is not None}
        try:
            with self._http.stream(method, path, params=given, **request) as answer:
                self._answered = True
                if not answer.is_success:
                    answer.read()
                    self._refuse(answer)
                yield answer
        except httpx.TransportError as error:
            raise ServerUnreachableError(
                f"no answer from {self.url} ({type(error).__name__}: {error}). Start the server with"
                " `trainyard serve`, or give its address with --url or TRAINYARD_URL"
            ) from None

    def _fetch(
        self, path: str, file: IO[bytes], on_progress: Callable[[int], None], query: Mapping[str, Any]
    ) -> httpx.Response:
        """Write a file that the server answers with; `on_progress` hears how many bytes are written."""
        written = 0
        with self._answering("GET", path, params=query) as answer:
            for piece in answer.iter_bytes():
                written += file.write(piece)
                on_progress(written)
        return answer

    def _refuse(self, answer: httpx.Response) -> NoReturn:
        try:
            problem = Problem.model_validate_json(answer.content)
        except ValidationError:
            text = answer.text[:500] or answer.reason_phrase
            problem = Problem(
                title="Unexpected answer", status=answer.status_code, detail=f"{self.url}: {text}"
            )
        raise ApiError(problem)
