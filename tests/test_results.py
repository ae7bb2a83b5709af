"""What was measured and is kept can be traced: it is whole, and names a commit of this history, as it was then."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("engine/benchmarks/results", "engine/experiments/results")


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def kept() -> list[str]:
    """Every result in the repository, but those of a run that is not committed yet."""
    found = git("ls-files", *FOLDERS)
    if found.returncode != 0 or git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("without this repository's whole history nobody can tell what is in it")
    return [name for name in found.stdout.splitlines() if (ROOT / name).exists()]


def results(names: list[str]) -> dict[str, dict[str, Any]]:
    """Those in JSON, by their path without the ending. (Lists are further tables of the result beside them.)"""
    read = {
        name.removesuffix(".json"): json.loads((ROOT / name).read_text(encoding="utf-8"))
        for name in names
        if name.endswith(".json")
    }
    return {stem: data for stem, data in read.items() if isinstance(data, dict)}


def test_every_result_is_of_a_commit_of_this_history() -> None:
    """With ` + changes` behind it, nobody has what was measured."""
    history = {line[:12] for line in git("rev-list", "HEAD").stdout.splitlines()}
    untraced = {
        stem: data["commit"] for stem, data in results(kept()).items() if data["commit"] not in history
    }
    assert untraced == {}


def test_every_result_is_whole_and_reads_as_its_table() -> None:
    names = kept()
    found = results(names)
    assert [stem for stem, data in found.items() if "incomplete" in data] == []
    texts = {name.removesuffix(".md") for name in names if name.endswith(".md") and "/20" in name}
    assert texts == found.keys()
    for stem, data in found.items():
        text = (ROOT / f"{stem}.md").read_text(encoding="utf-8")
        assert f"commit {data['commit']}\n" in text, stem
        assert data["command"] in text, stem
