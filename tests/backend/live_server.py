"""A real server: `trainyard serve` in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Any

from tests.backend import forks, warm
from tests.backend.forked import WARM_PROGRAMS, Forked
from tests.databases import url_of
from tests.lanes import require

ROOT = Path(__file__).resolve().parents[2]
START_S = 120.0
STOP_S = 60.0
RUN_S = 120.0
DIRECT: dict[str, Any] = {"trust_env": False, "verify": False}
"""For httpx: these servers are behind no proxy and have no certificate. Those that are trusted take 50 ms to load."""


def command(*arguments: str) -> list[str]:
    """`trainyard` with these arguments, from this checkout."""
    return [sys.executable, "-m", "backend.cli.main", *arguments]


def environment(**settings: object) -> dict[str, str]:
    """The environment with these settings (`data_dir` becomes TRAINYARD_DATA_DIR) and no others of ours."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRAINYARD_")}
    settings = {"description_forks": False, **settings}  # tests have their own (warm.py)
    if "data_dir" in settings and "database_url" not in settings:
        settings["database_url"] = url_of(Path(str(settings["data_dir"])))
    given = {name: str(value) for name, value in settings.items() if value is not None}
    return kept | {f"TRAINYARD_{name.upper()}": value for name, value in given.items()}


def run(*arguments: str, **settings: object) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    require("server_lane")
    with TemporaryFile("w+") as stdout, TemporaryFile("w+") as stderr:
        code = forks.start(list(arguments), environment(**settings), stdout, stderr).wait(RUN_S)
        for file in (stdout, stderr):
            file.seek(0)
        return subprocess.CompletedProcess(arguments, code, stdout.read(), stderr.read())


class LiveServer:
    """Serves while the block runs. `url` is its address."""

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int = 0,
        anew: bool = False,
        warm_jobs: bool = False,
        open_files: int | None = None,
        **settings: Any,
    ) -> None:
        """`anew`: as a person starts it, with a Python that has loaded nothing (see forks.py). `warm_jobs`: what
        its jobs import is loaded already (see warm.py). `open_files`: the limit, for one that is started anew."""
        self.data_dir = data_dir
        self._port = port
        self._anew = anew
        self._limit = () if open_files is None else ("prlimit", f"--nofile={open_files}")
        self._warm_jobs = warm_jobs
        self._settings = settings
        self.url = ""
        self.output: list[str] = []
        self._ready = threading.Event()

    def __enter__(self) -> LiveServer:
        require("server_lane", "browser")
        arguments = ["serve", "--port", str(self._port)]
        settings = environment(data_dir=self.data_dir, **self._settings)
        if self._warm_jobs:
            settings[WARM_PROGRAMS] = warm.address()
        reading, writing = (os.fdopen(end, mode) for end, mode in zip(os.pipe(), "rw", strict=True))
        self.process: subprocess.Popen[bytes] | Forked
        with writing:
            if self._anew:
                self.process = subprocess.Popen(
                    [*self._limit, *command(*arguments)],
                    env=settings,
                    cwd=ROOT,
                    stdout=writing,
                    stderr=writing,
                )
            else:
                self.process = forks.start(arguments, settings, writing, writing)
        self._reader = threading.Thread(target=self._read, args=(reading,), daemon=True)
        self._reader.start()
        if not self._ready.wait(START_S) or not self.url:
            self.process.kill()
            raise AssertionError("the server did not start:\n" + "".join(self.output))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.stop()

    def stop(self) -> int:
        """Ask it to end, and answer its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError("the server did not stop:\n" + "".join(self.output)) from None
        self._reader.join(STOP_S)
        return code

    def _read(self, said: IO[str]) -> None:
        with said:
            for line in said:
                self.output.append(line)
                if found := re.search(r"Trainyard is at (http\S+)", line):
                    self.url = found[1]
                    self._ready.set()
        self._ready.set()  # it has ended
