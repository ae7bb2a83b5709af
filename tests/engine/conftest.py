"""What tests of the engine share."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

NAME = "user_module_of_a_test"


@pytest.fixture
def user_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Path]]:
    """A module as a user's would be, gone when the test has ended. Called with its source, it is imported, and answers
    where it lies."""
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / f"{NAME}.py"

    def imported(source: str) -> Path:
        file.write_text(source)
        importlib.invalidate_caches()
        importlib.import_module(NAME)
        return file

    yield imported
    sys.modules.pop(NAME, None)
