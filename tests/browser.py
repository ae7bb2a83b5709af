"""Finds the Chromium that the browser tests drive."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""The first is the same engine without the windows, of which a Chromium draws one for each context although nobody sees
it, in three processes more: the browser's tests take a fifth less with it."""
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-background-networking"]
"""A container's user may not open a sandbox, its /dev/shm is often 64 MiB, and it has no graphics processor, which a
process of Chromium's would imitate; and a browser of tests has nobody to call."""

ONE_RENDERER = "--process-per-site"
"""The pages of a context share a process, and with it the scripts that it has compiled."""
_LINE_NUMBERS = "--no-enable-lazy-source-positions"
"""Whoever drives a browser has it keep the whole stack of each exception, also of those that are caught. plotly.js
throws six while it loads, in functions that hold all of it, and V8 parses each of these again for the line numbers: a
quarter of a second of processor time that no user's browser takes. With this, V8 notes them when it compiles."""
AS_FOR_A_USER = f"--js-flags={_LINE_NUMBERS}"
"""Where what a page costs its users is measured."""
SHORT_LIVED = f"--js-flags=--no-opt --no-maglev --single-threaded {_LINE_NUMBERS}"
"""No page of a test lives for so long that what it calls most is worth an optimizing compiler, nor a collector of
garbage beside it: without them it takes a sixth less. Where speed or memory is the subject, a browser has them."""


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
