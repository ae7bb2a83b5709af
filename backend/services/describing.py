"""The process that describes a model, or measures it, within limits: a user's code runs there, and may take any time
and memory and say anything.

The process holds its own limit of memory, which each process that it starts inherits. Time, and how much of what they
say is kept, are held here. Nothing that was started outlives the answer.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias

from backend.executors import process, scratch
from backend.executors.environment import inherited
from backend.services.asker import Asker
from backend.services.forks import Fork, Forks
from engine import errors
from engine.errors import UserError
from engine.models.memory_limit import gib

SOURCE = Path(errors.__file__).resolve().parent.parent
ANSWER_BYTES = 2**26
"""A description of ten thousand layers has five million."""
SAID_BYTES = 2**14
"""The end of what is printed, which says why a process failed."""
SAID_LINES = 8
PIECE = 2**16
CLEANED_S = 5.0
"""How long its watchdog may take to end what was started."""


Child: TypeAlias = "subprocess.Popen[bytes] | Fork"


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """What describing one model may cost."""

    seconds: float
    memory_bytes: int
    """Of each of its processes: what it allocates, used or not. 0: no limit."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is asked of the process."""

    module: str
    """It reads a request from standard input and answers on standard output."""
    doing: str
    """`describing the model`."""
    done: str
    """`described`."""
    devices: bool
    """Whether it may use the machine's CUDA devices."""
    too_long: str
    """The remedy where it takes too long."""
    holds: str | None = None
    """A field that its answer has."""


DESCRIBE = Task(
    module="engine.models",
    doing="describing the model",
    done="described",
    devices=False,
    too_long="Build less when the model is constructed, or allow more with TRAINYARD_DESCRIPTION_SECONDS",
)


def ask(
    request: dict[str, Any],
    subject: str,
    allowed: Allowance,
    lifeline: Connection,
    task: Task = DESCRIBE,
    temporary: Path | None = None,
    asker: Asker | None = None,
    forks: Forks | None = None,
) -> dict[str, Any]:
    """The answer of `describer.py` to a request. It ends when the other end of `lifeline` closes, too. `temporary`:
    where its temporary files go, which it leaves where it is killed; None: to the system's folder. `forks`: who has
    loaded what it needs; it may have none at the moment.

    Raises UserError where it answers with one, and naming the model, `subject`, where it takes more than what is
    allowed or does not answer as it should (the user's code can write to its pipe); Left as soon as the asker is gone.
    """
    command = [
        sys.executable,
        "-m",
        "backend.services.describer",
        str(lifeline.fileno()),
        str(allowed.memory_bytes),
        task.module,
    ]
    environment = {**inherited(), "OMP_NUM_THREADS": "1"}
    if not task.devices:
        environment["CUDA_VISIBLE_DEVICES"] = ""
    if temporary is not None:
        environment[scratch.VARIABLE] = str(temporary)
    marker = Path("/describing", uuid.uuid4().hex)
    environment[process.MARKER] = str(marker)
    deadline = time.monotonic() + allowed.seconds
    try:
        with tempfile.TemporaryFile() as given:
            given.write(json.dumps(request).encode())
            given.seek(0)
            child: Child | None = None
            if forks is not None:
                child = forks.started(
                    task.module, allowed.memory_bytes, lifeline.fileno(), environment, given, deadline, asker
                )
            if child is None:
                child = subprocess.Popen(
                    command,
                    stdin=given,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=environment,
                    cwd=SOURCE,
                    start_new_session=True,
                    pass_fds=[lifeline.fileno()],
                )
        with child:
            try:
                answer, said = _listen(child, deadline, asker)
            finally:
                _end(child, marker)
    except TimeoutError:
        rule = f"could not be {task.done} within {allowed.seconds:g} s"
        raise UserError("model", subject, rule, task.too_long) from None
    if len(answer) > ANSWER_BYTES:
        rule = f"has a description of more than {ANSWER_BYTES // 2**20} MiB"
        raise UserError("model", subject, rule, "Use fewer layers, or larger ones")
    try:
        found = json.loads(answer)
        refusal = _refusal(found, task)
    except (AssertionError, ValueError, RecursionError):
        raise _failed(child.returncode, said, subject, allowed, task) from None
    if refusal is not None:
        raise refusal
    return found


def _refusal(found: Any, task: Task) -> UserError | None:
    """The error that an answer holds. Raises AssertionError where it is no answer of the task's."""
    assert isinstance(found, dict)
    error = found.get("error")
    if not error:
        assert task.holds is None or task.holds in found
        return None
    assert isinstance(error, dict)
    texts = [error.get(name) for name in ("field", "rule", "remedy")]
    assert all(isinstance(text, str) for text in texts)
    field, rule, remedy = map(str, texts)
    return UserError(field, error.get("value"), rule, remedy)


def _end(child: Child, marker: Path) -> None:
    """End what is left. `child` ends by itself, and all that the user's code started, once what it watches has ended;
    but a user's code may have stopped it."""
    for each in process.descendants(child.pid):
        process.send(each, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        child.wait(CLEANED_S)
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    process.kill_marked(marker)


def _listen(child: Child, deadline: float, asker: Asker | None) -> tuple[bytes, bytes]:
    """What it answered, and the end of what it said, once it has ended. Raises TimeoutError, and Left."""
    assert child.stdout is not None
    assert child.stderr is not None
    answer, said = bytearray(), bytearray()
    for pipe in (child.stdout, child.stderr):
        os.set_blocking(pipe.fileno(), False)
    try:
        watched = os.pidfd_open(child.pid)
    except ProcessLookupError:  # who has forked it was killed, and it has ended: what it said is in the pipes
        return child.stdout.read() or b"", (child.stderr.read() or b"")[-SAID_BYTES:]
    with selectors.DefaultSelector() as selector:
        try:
            for pipe, kept in ((child.stdout, answer), (child.stderr, said)):
                selector.register(pipe, selectors.EVENT_READ, kept)
            selector.register(watched, selectors.EVENT_READ)  # who inherited a pipe may hold it open for ever
            if asker is not None:
                selector.register(asker, selectors.EVENT_READ)
            while True:
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready or time.monotonic() > deadline:
                    raise TimeoutError
                if asker is not None:
                    asker.check()
                pieces = [(key, os.read(key.fd, PIECE)) for key, _ in ready if key.data is not None]
                for key, piece in pieces:
                    key.data.extend(piece)
                    if not piece:
                        selector.unregister(key.fileobj)
                del said[:-SAID_BYTES]
                if len(answer) > ANSWER_BYTES:
                    return bytes(answer), bytes(said)
                if not pieces:  # it has ended, and the pipes are empty
                    return bytes(answer), bytes(said)
        finally:
            os.close(watched)


def _failed(code: int, said: bytes, subject: str, allowed: Allowance, task: Task) -> UserError:
    lines = said.decode("utf-8", "replace").strip().splitlines()
    last = "\n".join(lines[-SAID_LINES:]) or "it said nothing"
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return UserError(
        "model",
        subject,
        f"{task.doing} {how}: {last}",
        "Build the model in Python first to see the error"
        + (f". Here it may use {gib(allowed.memory_bytes)} of memory" if allowed.memory_bytes else ""),
    )
