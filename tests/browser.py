"""Finds the Chromium that the browser tests drive."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage"]
"""A container's user may not open a sandbox, and its /dev/shm is often 64 MiB."""


def find_chromium() -> str | None:
    """The path of a Chromium: `$CHROMIUM`, one on the PATH, Playwright's own; None where there is none.

    Raises FileNotFoundError where `$CHROMIUM` names a file that does not exist: a wish that cannot be met
    must not silently become another browser.
    """
    if wished := os.environ.get("CHROMIUM"):
        if found := shutil.which(wished):
            return found
        raise FileNotFoundError(f"CHROMIUM = {wished!r}: no such program. Correct or unset the variable")
    for name in NAMES:
        if found := shutil.which(name):
            return found
    return _playwrights_own()


def _playwrights_own() -> str | None:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  (only browser tests need it)

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None
