"""Methods, HEAD and dates as HTTP (RFC 9110) has them, for every address of the API and for the page's files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

import httpx
import pytest
from fastapi.testclient import TestClient

from backend.app import create_app
from backend.settings import Settings
from tests.backend.api_document import DOCUMENT
from tests.backend.job_specs import JSON
from tests.backend.live_server import DIRECT, LiveServer
from tests.databases import url_of

PATHS = {
    re.sub(r"\{attempt\}", "1", re.sub(r"\{\w+\}", "x", path)): {method.upper() for method in operations}
    for path, operations in DOCUMENT["paths"].items()
} | {"/api/v1/openapi.json": {"GET"}}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
WRITTEN = "Sun, 06 Nov 1994 08:49:37 GMT"
LATER = ("Mon, 07 Nov 1994 00:00:00 GMT", "Monday, 07-Nov-94 00:00:00 GMT", "Mon Nov  7 00:00:00 1994")
"""A date in the three forms that a server must read."""
NO_DATES = (
    "",
    "yesterday",
    "Mon, 99 Foo 1994 99:99:99 GMT",
    "Tue, 99 Nov 9999 08:49:37 GMT",
    "Wed, 30 Feb 2028 08:49:37 GMT",
    "Mon, 07 Nov 1994 00:00:00 +0900",
    "Mon, 07 Nov 1994 00:00:00",
    "1994-11-07T00:00:00Z",
    "Mon, 07 Nov 1994 00:00:00 GMT, Mon, 07 Nov 1994 00:00:00 GMT",
)
"""What a server must ignore (RFC 9110, section 13.1.3)."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """The application with a built page of one script."""
    data_dir = tmp_path_factory.mktemp("page")
    (data_dir / "dist").mkdir()
    for name in ("index.html", "a.js"):
        path = data_dir / "dist" / name
        path.write_text("text")
        at = parsedate_to_datetime(WRITTEN).timestamp()
        os.utime(path, (at, at))
    settings = Settings(
        data_dir=data_dir, database_url=url_of(data_dir), frontend_dir=data_dir / "dist", scheduler=False
    )
    with TestClient(create_app(settings), base_url="http://127.0.0.1") as client:
        yield client


@pytest.mark.parametrize("path", sorted(PATHS))
def test_a_method_that_an_address_does_not_have_is_refused_with_those_it_has(
    api: TestClient, path: str
) -> None:
    has = PATHS[path] | ({"HEAD"} if "GET" in PATHS[path] else set())
    for method in sorted(set(METHODS) - has):
        answer = api.request(method, path, headers=JSON)
        assert answer.status_code == 405, method
        assert answer.headers["allow"] == ", ".join(sorted(has))
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("method", METHODS)
def test_an_address_that_is_not_there_has_no_method(api: TestClient, method: str) -> None:
    for path in ("/api/v1", "/api/v1/", "/api/v1/nothing", "/api/v1/jobs/", "/api/v1/jobs/x/y"):
        answer = api.request(method, path, headers=JSON)
        assert answer.status_code == 404, path
        assert "allow" not in answer.headers


@pytest.mark.parametrize("path", ["/api/v1/health", "/", "/api/v1/nothing"])
@pytest.mark.parametrize("method", ["CONNECT", "BREW"])
def test_a_method_that_nothing_here_has_is_not_implemented(api: TestClient, method: str, path: str) -> None:
    answer = api.request(method, path)
    assert answer.status_code == 501
    assert "Use one of DELETE, GET" in answer.json()["detail"]


def test_head_answers_what_get_does_without_the_content(api: TestClient) -> None:
    for path in ("/api/v1/strategies", "/api/v1/jobs", "/api/v1/jobs/nobody", "/api/v1/openapi.json"):
        get, head = api.get(path), api.head(path)
        assert head.status_code == get.status_code
        assert head.content == b""
        assert dict(head.headers) == dict(get.headers)


def test_head_of_the_feed_ends_and_the_connection_goes_on(live: LiveServer) -> None:
    with httpx.Client(base_url=live.url, **DIRECT) as client:
        for _ in range(3):
            head = client.head("/api/v1/notices")
            assert head.status_code == 200
            assert head.headers["content-type"].startswith("text/event-stream")
            assert client.get("/api/v1/health").json()["status"] == "ok"
        refused = client.head("/api/v1/notices", headers={"Last-Event-ID": "x"})
        assert (refused.status_code, refused.content) == (400, b"")


def test_every_answer_is_dated(live: LiveServer) -> None:
    for path in ("/", "/api/v1/health", "/api/v1/nothing", "/api/v1/jobs/nobody"):
        dated = httpx.get(f"{live.url}{path}", **DIRECT).headers["date"]
        assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", dated)


def test_a_file_of_the_page_is_sent_again_only_when_it_changed(page: TestClient) -> None:
    first = page.get("/a.js")
    assert (first.text, first.headers["last-modified"]) == ("text", WRITTEN)
    for since in (WRITTEN, *LATER):
        assert page.get("/a.js", headers={"If-Modified-Since": since}).status_code == 304
    for since in ("Sun, 06 Nov 1994 08:49:36 GMT", *NO_DATES):
        assert page.get("/a.js", headers={"If-Modified-Since": since}).text == "text", since
    tagged = {
        "If-None-Match": '"another"',
        "If-Modified-Since": LATER[0],
    }  # the tag counts where both are there
    assert page.get("/a.js", headers=tagged).text == "text"
    assert page.get("/a.js", headers={"If-None-Match": first.headers["etag"]}).status_code == 304
    assert page.head("/a.js").headers["content-length"] == "4"


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "POST", "DELETE"])
def test_a_file_of_the_page_can_only_be_read(page: TestClient, method: str) -> None:
    answer = page.request(method, "/a.js", headers=JSON)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
