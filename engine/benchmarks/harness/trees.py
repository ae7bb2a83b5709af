"""Work trees: another commit's files beside this one's, so that both engines can be compared."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.benchmarks.harness.machine import ROOT


@contextmanager
def work_tree(commit: str) -> Iterator[Path]:
    """The files of a commit. Raises SystemExit where there is no git, or this checkout has no such commit."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        raise SystemExit(
            f"{ROOT} is no git checkout, and another commit's files come from one: clone the repository"
        )
    if subprocess.run(["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=ROOT, check=False).returncode:
        raise SystemExit(
            f"COMMIT = {commit!r}: no such commit in {ROOT}. `git log --oneline` lists those there are"
        )
    with tempfile.TemporaryDirectory(prefix="trainyard-commit-") as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", tree, commit], cwd=ROOT, check=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)


def run_in(tree: Path, program: str, given: Mapping[str, Any], failed: str) -> Any:
    """What a Python program prints as JSON in its last line, run with the engine in `tree` and `given` as its argument,
    as JSON. Raises RuntimeError, `failed` and its status, where it ends with one."""
    process = subprocess.run(
        [sys.executable, "-c", program, json.dumps(dict(given))],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if process.returncode:
        raise RuntimeError(f"{failed} (status {process.returncode}); what it said stands above")
    return json.loads(process.stdout.splitlines()[-1])
