"""Pictures of every page and of every dialog over one, in both themes, on a laptop and on a phone, for people to look
at: of two small jobs and a small race, which are run first, of a job that goes on while another one waits, and of what
somebody sees who may only look.

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
from tests.backend.guarded import TOKEN
from tests.backend.held_jobs import held_spec
from tests.backend.job_specs import job_spec
from tests.backend.live_server import LiveServer
from tests.browser import ARGUMENTS, find_chromium
from tests.e2e.recorded import record, record_drifting
from tests.e2e.views import SCREEN_PX, View, dialog, sign_in, views

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SIZES = {"laptop": 1280, "phone": 390}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
TIMEOUT_MS = 60_000
DECLARED_S = 3_600
"""How long the job that goes on says that it takes: so the other one's start is known."""


def take(browser: Browser, url: str, found: dict[str, View], out: Path) -> None:
    """Each view as `<view>-<size>-<theme>.png`, as high as it is; what opens over it has `-<button>` after its name."""
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
            keep(page, out / f"{name}-{size}-{theme}.png")
            for opener in view.asks:
                page.set_viewport_size({"width": width, "height": SCREEN_PX})
                with dialog(page, opener):
                    keep(page, out / f"{name}-{opener}-{size}-{theme}.png")
        context.close()


def keep(page: Page, path: Path) -> None:
    page.screenshot(path=path)
    print(path.name, flush=True)


def ranked(client: Client) -> str:
    """A race that has ended, with a verdict and a curve for each member: its id."""
    spec = job_spec("a race", model={"name": "mlp", "options": {"hidden": 64}})
    members = [{"strategy": name} for name in ("p3", "parameter-server", "ddp")]
    race = client.start_race({"job": spec, "members": members, "rates": ["20Mbit", "100Mbit"]})
    assert client.wait_for_race(race.id).decided
    return race.id


def watching(guarded: LiveServer) -> View:
    """Launch, for who may only look."""
    with Client(guarded.url, token=TOKEN) as admin:
        admin.add_user("ada", "viewer")
        token = admin.make_token("for pictures", user="ada").token

    def enter(page: Page) -> None:
        page.get_by_test_id("token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_test_id("may-not-launch")).to_be_visible()

    return View(address=f"{guarded.url}/launch", shows="sign-in", do=enter)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="a folder, made where it is missing")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    expect.set_options(timeout=TIMEOUT_MS)
    with (
        tempfile.TemporaryDirectory() as directory,
        LiveServer(Path(directory) / "data", cpu_devices=2, warm_jobs=True) as server,
        LiveServer(Path(directory) / "guarded", scheduler=False, token=TOKEN) as guarded,
        Client(server.url) as client,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=ARGUMENTS)
        found = views(client, record(client), record_drifting(client), ranked(client))
        take(browser, server.url, found, out)
        held, waits = (
            client.submit(held_spec(name, duration_s=DECLARED_S)).id for name in ("goes on", "waits")
        )
        busy = {
            "job-running": View(address=f"/jobs/{held}", shows="tab-overview", asks=("cancel",)),
            "queue": View(address="/devices", shows=f"waiting-{waits}"),
            "sign-in": sign_in(guarded.url),
            "launch-viewer": watching(guarded),
        }
        try:
            take(browser, server.url, busy, out)
        finally:  # they would go on without the server
            for job in (waits, held):
                client.stop(job, timeout_s=TIMEOUT_MS / 1e3)
        browser.close()


if __name__ == "__main__":
    main()
