"""A real server with the built page, and a page of a real Chromium that tells its complaints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, get_args
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from backend.client import ENDED, Client
from backend.schemas.jobs import State
from backend.settings import Settings
from tests.backend.live_server import LiveServer
from tests.e2e.recorded import record, record_drifting, record_race
from tests.e2e.views import PARTS, View, views
from tests.e2e.visited import Visited, visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

NOT_BUILT = "the page is not built: cd frontend && npm ci && npm run build (make test does)"
TIMEOUT_MS = 60_000
"""The workers of these jobs share two cores with the browser; a step may take seconds there."""

NOT_ENDED = ",".join(state for state in get_args(State) if state not in ENDED)
"""Of jobs, as lists are asked for them: of a hundred that have ended nothing is to be done."""

expect.set_options(timeout=TIMEOUT_MS)


@pytest.fixture(scope="session")
def server(server_lane: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server for all browser tests, its scheduler running."""
    if not (Settings().frontend_dir / "index.html").is_file():
        pytest.fail(NOT_BUILT)
    with LiveServer(tmp_path_factory.mktemp("e2e"), cpu_devices=2, warm_jobs=True) as running:
        yield running


@pytest.fixture
def client(server: LiveServer) -> Iterator[Client]:
    """Afterwards: whatever the test left running has no device any more, also where it failed."""
    with Client(server.url) as found:
        yield found
        for job in found.jobs(state=NOT_ENDED):
            found.stop(job.id, timeout_s=TIMEOUT_MS / 1e3)


@pytest.fixture(scope="session")
def recorded(server: LiveServer) -> list[str]:
    """A baseline and a job of P3, to their last telemetry, that tests look at and leave as they are."""
    with Client(server.url) as found:
        return record(found)


@pytest.fixture(scope="session")
def drifting(server: LiveServer) -> str:
    """A job whose workers do not wait for one another, that tests look at and leave as it is: its id."""
    with Client(server.url) as found:
        return record_drifting(found)


@pytest.fixture(scope="session")
def raced(server: LiveServer) -> str:
    """A race that has ended, that tests look at and leave as it is: its id."""
    with Client(server.url) as found:
        return record_race(found)


@pytest.fixture(scope="session")
def pages(server: LiveServer, recorded: list[str], drifting: str, raced: str) -> dict[str, View]:
    """Every page, as somebody meets it who only looks."""
    with Client(server.url) as found:
        return views(found, recorded, drifting, raced)


@pytest.fixture(scope="session")
def visits(browser: Browser, server: LiveServer) -> Iterator[BrowserContext]:
    """What pages of that server are opened in, one after another. One of them stays open, and shows next to nothing: as
    long as there is one, the next need neither load nor compile the scripts again, a third of what it costs."""
    context = new_context(browser, server.url)
    context.new_page().goto("/api/v1/health")
    yield context
    context.close()


@pytest.fixture(scope="session")
def visited(visits: BrowserContext, server: LiveServer, pages: dict[str, View], raced: str) -> Visited:
    """What a visit found to every page, but for those of which another one has all."""
    whole = {name: view for name, view in pages.items() if name not in PARTS}
    with watched(visits.new_page(), server) as opened:
        seen = visit(opened, whole, raced)
        opened.close()
    return seen


@pytest.fixture
def page(visits: BrowserContext, server: LiveServer) -> Iterator[Page]:
    """A page on a laptop's screen, of somebody who was never here. Afterwards: it broke nowhere, and it asked nobody
    but the server."""
    with watched(visits.new_page(), server) as opened:
        yield opened
        staying, *others = visits.pages
        for each in others:
            each.close()
        visits.set_offline(False)
        visits.clear_cookies()
        staying.evaluate("localStorage.clear()")


@pytest.fixture
def lone_page(browser: Browser, server: LiveServer) -> Iterator[Page]:
    """As `page`, of a context of its own: its clock may be stopped."""
    context = new_context(browser, server.url)
    with watched(context.new_page(), server) as opened:
        yield opened
        context.close()


def new_context(browser: Browser, url: str, height: int = 800) -> BrowserContext:
    """Somebody's on a laptop, who begins at this address and has the patience that a busy machine needs."""
    context = browser.new_context(viewport={"width": 1280, "height": height}, base_url=url)
    context.set_default_timeout(TIMEOUT_MS)
    return context


@contextmanager
def watched(opened: Page, server: LiveServer) -> Iterator[Page]:
    broken: list[str] = []
    strangers: set[str] = set()
    opened.on("pageerror", lambda error: broken.append(str(error)))
    opened.on("request", lambda request: strangers.add(urlsplit(request.url).netloc))
    yield opened
    assert not broken
    assert strangers <= {urlsplit(server.url).netloc, ""}  # blob: and data: addresses name nobody
