"""Describing a user's model in a process of its own."""

from __future__ import annotations

import os
import select
from pathlib import Path

import pytest

from backend.services.descriptions import Descriptions
from engine.errors import UserError
from engine.plan.job import SourceSpec


def test_what_a_users_code_started_ends_with_the_time_limit(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import pathlib, subprocess\n"
        "def build():\n"
        "    child = subprocess.Popen(['sleep', '600'])\n"
        "    pathlib.Path(__file__).with_name('pid').write_text(str(child.pid))\n"
        "    child.wait()\n"
    )
    model = SourceSpec(entrypoint="mine:build", directory=str(tmp_path))
    with pytest.raises(UserError, match="within 15 s"):
        Descriptions(tmp_path / "cache", timeout_s=15).describe(model, SourceSpec(name="digits"), "float32")
    try:
        child = os.pidfd_open(int((tmp_path / "pid").read_text()))
    except ProcessLookupError:
        return
    ended, _, _ = select.select([child], [], [], 30)
    os.close(child)
    assert ended, "the child of the describing process is still there"
