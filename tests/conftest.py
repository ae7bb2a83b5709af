"""Fixtures that all tests share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from backend.chaos.ports import reserved
from engine.user_code import FOLDERS
from tests.browser import ARGUMENTS, ONE_RENDERER, SHORT_LIVED, find_chromium
from tests.facilities import unavailable
from tests.modules import forget_modules

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest_plugins = ("tests.lanes", "tests.costs", "tests.databases")
_WITHOUT_BROWSER = "no Chromium: set CHROMIUM, put one on the PATH, or run `playwright install chromium`"


@pytest.fixture(scope="session", autouse=True)
def data_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Vocabularies of text are trained once for all tests, and not kept among a person's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINYARD_DATA_DIR", str(tmp_path_factory.mktemp("data")))
        patch.setenv("TRAINYARD_DESCRIPTION_FORKS", "0")  # tests have their own (`tests/backend/warm.py`)
        for name in ("TRAINYARD_TOKEN", "TRAINYARD_TOKEN_FILE", "TRAINYARD_INSECURE"):
            patch.delenv(name, raising=False)  # a person's own server may have one
        yield


@pytest.fixture(autouse=True)
def users_modules() -> Iterator[None]:
    """What a test imports from a user's folder is gone after it, as it is gone with a job's processes."""
    paths, folders = list(sys.path), set(FOLDERS)
    yield
    forget_modules(paths)
    FOLDERS.intersection_update(folders)


@pytest.fixture
def port() -> Iterator[int]:
    """Of servers that come one after another: nobody else gets it in between."""
    with reserved() as port:
        yield port


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium. Skips where there is none."""
    path = find_chromium()
    if path is None:
        unavailable("browser", _WITHOUT_BROWSER)
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  (only browser tests need it)

    with sync_playwright() as playwright:
        arguments = [*ARGUMENTS, ONE_RENDERER, SHORT_LIVED]
        chromium = playwright.chromium.launch(executable_path=path, args=arguments)
        yield chromium
        chromium.close()
