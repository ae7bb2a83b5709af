"""Work trees: another commit's files beside this one's, so that both engines can be compared."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
