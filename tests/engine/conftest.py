"""What tests of the engine share."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.transport.plane import VARIABLE
from tests.data_planes import PLANES, built

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


@pytest.fixture(scope="session")
def plane_in_c() -> None:
    """The data plane in C. Skips where there is no compiler."""
    built()


@pytest.fixture(params=PLANES, ids=["python", "in_c"])
def data_plane(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every endpoint of the test, also those of its processes, has this one."""
    if request.param == "c":
        request.getfixturevalue("plane_in_c")
    monkeypatch.setenv(VARIABLE, request.param)
    return str(request.param)
