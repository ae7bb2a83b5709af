"""Pictures of every page, in both themes, on a laptop and on a phone, for people to look at: of two small jobs and a
small race, which are run first.

Run: `python -m tests.e2e.screenshots OUT` (some minutes).
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from playwright.sync_api import expect, sync_playwright

from backend.client import Client
from tests.backend.job_specs import job_spec
from tests.backend.live_server import LiveServer
from tests.browser import ARGUMENTS, find_chromium
from tests.e2e.recorded import record, record_drifting
from tests.e2e.views import SCREEN_PX, View, views

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SIZES = {"laptop": 1280, "phone": 390}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
TIMEOUT_MS = 60_000


def take(browser: Browser, url: str, found: dict[str, View], out: Path) -> None:
    """Each view as `<view>-<size>-<theme>.png`, as high as it is."""
    for theme, (size, width) in itertools.product(THEMES, SIZES.items()):
        context = browser.new_context(
            viewport={"width": width, "height": SCREEN_PX},
            base_url=url,
            color_scheme=theme,
            reduced_motion="reduce",
        )
        context.set_default_timeout(TIMEOUT_MS)
        page = context.new_page()
        for name, view in found.items():
            view.open(page)
            page.screenshot(path=out / f"{name}-{size}-{theme}.png")
            print(f"{name}-{size}-{theme}.png", flush=True)
        context.close()


def ranked(client: Client) -> View:
    """A race that has ended, with a verdict and a curve for each member."""
    spec = job_spec("a race", model={"name": "mlp", "options": {"hidden": 64}})
    members = [{"strategy": name} for name in ("p3", "parameter-server", "ddp")]
    race = client.start_race({"job": spec, "members": members, "rates": ["20Mbit", "100Mbit"]})
    assert client.wait_for_race(race.id).decided
    return View(address=f"/races/{race.id}", shows="ranking-sentence")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="a folder, made where it is missing")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    expect.set_options(timeout=TIMEOUT_MS)
    with (
        tempfile.TemporaryDirectory() as directory,
        LiveServer(Path(directory), cpu_devices=2, warm_jobs=True) as server,
        Client(server.url) as client,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=ARGUMENTS)
        found = views(client, record(client), record_drifting(client)) | {"race-ranking": ranked(client)}
        take(browser, server.url, found, out)
        browser.close()


if __name__ == "__main__":
    main()
