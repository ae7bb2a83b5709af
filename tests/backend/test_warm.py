"""Forks for tests have loaded what they are for: without it each job of a test takes three seconds of a core more, and
nothing else would say so."""

from __future__ import annotations

import os
import subprocess
import sys
from multiprocessing import forkserver
from pathlib import Path

import pytest

from engine.gang.gang import FORKED
from tests.backend import warm

pytestmark = pytest.mark.usefixtures("server_lane")


def test_a_fork_has_what_gangs_and_descriptions_load(tmp_path: Path) -> None:
    assert FORKED.get_start_method() == "forkserver"
    preloaded: list[str] = forkserver._forkserver._preload_modules  # type: ignore[attr-defined]
    assert preloaded == ["engine.gang.preload"]
    wanted = [*preloaded, "backend.executors.supervisor", "engine.models.describe", "torch._dynamo"]
    with warm.Program(
        [sys.executable, "-m", "tests.backend.loaded", *wanted],
        env=os.environ,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=2,
        start_new_session=True,
    ) as program:
        assert program.stdout is not None
        assert program.stdout.read().decode().split() == wanted
