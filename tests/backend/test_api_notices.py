"""The live feed, over a real server: no gaps, no repetitions, and an end when the server ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from backend.client import Client
from tests.backend.job_specs import job_spec
from tests.backend.live_server import DIRECT, LiveServer

QUIET_S = 30.0
"""A feed that says nothing for so long has lost something."""


class Feed:
    """One connection to the feed."""

    def __init__(self, server: LiveServer, last_seen: str | None = None, asked: str | None = None) -> None:
        """`last_seen` goes into the header, `asked` into the address."""
        headers = {} if last_seen is None else {"Last-Event-ID": last_seen}
        query = {} if asked is None else {"last_event_id": asked}
        self._http = httpx.Client(base_url=server.url, timeout=QUIET_S, **DIRECT)
        self._stream = self._http.stream("GET", "/api/v1/notices", headers=headers, params=query)
        response = self._stream.__enter__()
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        self._lines = response.iter_lines()

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.__exit__(None, None, None)
        self._http.close()

    def events(self) -> Iterator[dict[str, Any]]:
        """Events as they come: kind, id and data."""
        event: dict[str, Any] = {}
        for line in self._lines:
            if not line:
                if event:
                    yield event
                event = {}
            elif not line.startswith(":"):
                name, _, value = line.partition(": ")
                event[name] = json.loads(value) if name == "data" else value

    def until(self, wanted: str, job_id: str | None = None, state: str | None = None) -> list[dict[str, Any]]:
        """Everything up to the first event of this kind (of this job, in this state)."""
        seen = []
        for event in self.events():
            seen.append(event)
            data = event["data"]
            if (
                event["event"] == wanted
                and job_id in (None, data.get("job_id"))
                and state in (None, data.get("state"))
            ):
                return seen
        raise AssertionError(f"the feed ended before {wanted} of {job_id}: {seen}")


@pytest.fixture
def client(live: LiveServer) -> Iterator[Client]:
    with Client(live.url) as found:
        yield found


def test_a_page_hears_of_a_job_and_of_its_end(live: LiveServer, client: Client) -> None:
    with Feed(live) as feed:
        feed.until("ready")
        job = client.submit(job_spec("heard"))
        told = feed.until("job", job.id, "queued")[-1]
        assert told["data"]["revision"] == job.revision
        figures = {"step", "steps", "loss", "samples_per_s"}
        assert set(told["data"]) == {"job_id", "revision", "state", "rehearsed", "slowed", *figures}
        client.cancel(job.id)
        assert feed.until("job", job.id, "cancelled")


def test_a_page_that_was_away_misses_nothing(live: LiveServer, client: Client) -> None:
    with Feed(live) as feed:
        feed.until("ready")
        first = client.submit(job_spec("before"))
        last_seen = feed.until("job", first.id)[-1]["id"]
    missed = [client.submit(job_spec(f"missed {i}")).id for i in range(3)]
    client.cancel(missed[0])
    with Feed(live, last_seen) as feed:
        later = client.submit(job_spec("after"))
        seen = feed.until("job", later.id)
    numbers = [int(event["id"]) for event in seen]
    assert numbers == sorted(set(numbers))
    assert min(numbers) > int(last_seen)
    newest = {event["data"]["job_id"]: event["data"]["state"] for event in seen}
    assert newest == {missed[0]: "cancelled", missed[1]: "queued", missed[2]: "queued", later.id: "queued"}


def test_a_page_that_begins_with_its_session_misses_nothing_and_asks_for_nothing_again(
    live: LiveServer, client: Client
) -> None:
    earlier = client.submit(job_spec("is in what a page asks for"))
    newest = httpx.get(f"{live.url}/api/v1/session", **DIRECT).json()["newest_notice"]
    job = client.submit(job_spec("comes while a page is being opened"))
    with Feed(live, asked=str(newest)) as feed:
        seen = feed.until("job", job.id)
    assert {event["event"] for event in seen} == {"job"}, (
        "neither ready nor reset, after which all is asked for again"
    )
    assert earlier.id not in {event["data"]["job_id"] for event in seen}


def test_who_cannot_send_the_header_resumes_by_the_address(live: LiveServer, client: Client) -> None:
    with Feed(live) as feed:
        feed.until("ready")
        first, second = (client.submit(job_spec(name)).id for name in ("first seen", "second seen"))
        before = feed.until("job", first)[-1]["id"]
        after = feed.until("job", second)[-1]["id"]
    with Feed(live, asked=before) as feed:
        assert feed.until("job", second)[-1]["id"] == after
    third = client.submit(job_spec("third seen")).id
    with Feed(live, last_seen=after, asked=before) as feed:  # a browser that tries the same address again
        assert min(int(event["id"]) for event in feed.until("job", third)) > int(after)


NO_IDS = ("not a number", "-5", "9" * 5_000, "9" * 19, "1e3", "1_0", "\xb2", "")


@pytest.mark.parametrize("last_seen", NO_IDS, ids=lambda given: ascii(given[:20]))
def test_what_is_no_id_is_refused(live: LiveServer, last_seen: str) -> None:
    headers = {"Last-Event-ID": last_seen.encode("latin-1")}
    for given in ({"headers": headers}, {"params": {"last_event_id": last_seen[:100]}}):
        answer = httpx.get(f"{live.url}/api/v1/notices", **DIRECT, **given)  # type: ignore[arg-type]
        assert answer.status_code == 400, answer.text
        (error,) = answer.json()["errors"]
        assert error["field"] == "Last-Event-ID"
        assert "a whole number from 0 to 9223372036854775807" in error["rule"]
        assert "or none to begin now" in error["remedy"]
        assert len(answer.text) < 1_500
    assert "Traceback" not in "".join(live.output)


@pytest.mark.parametrize("last_seen", ["999999999", "9223372036854775807"])
def test_an_id_that_is_not_kept_means_ask_again(live: LiveServer, client: Client, last_seen: str) -> None:
    with Feed(live, last_seen) as feed:
        reset = feed.until("reset")[0]
        assert reset["event"] == "reset"
        job = client.submit(job_spec("after a reset"))
        assert int(feed.until("job", job.id)[-1]["id"]) > int(reset["id"])


@pytest.mark.usefixtures("server_lane")
def test_too_much_missed_means_ask_again(tmp_path: Path, descriptions: Path) -> None:
    (tmp_path / "cache").symlink_to(descriptions)
    with LiveServer(tmp_path, scheduler=False, notices_kept=3) as server, Client(server.url) as client:
        for number in range(8):
            with Feed(server) as feed:
                feed.until("ready")
                feed.until("job", client.submit(job_spec(f"job {number}")).id)
        with Feed(server, "1") as feed:
            assert feed.until("reset")
        with Feed(server, "7") as feed:
            assert feed.until("job")[0]["id"] == "8"


def test_many_pages_hear_the_same(live: LiveServer, client: Client) -> None:
    feeds = [Feed(live) for _ in range(5)]
    for feed in feeds:
        feed.until("ready")
    job = client.submit(job_spec("for all"))
    ids = {feed.until("job", job.id)[-1]["id"] for feed in feeds}
    assert len(ids) == 1
    for feed in feeds:
        feed.__exit__()


def test_requests_are_answered_while_pages_listen(live: LiveServer, client: Client) -> None:
    feeds = [Feed(live) for _ in range(50)]  # more than there are worker threads
    assert client.health().status == "ok"
    for feed in feeds:
        feed.__exit__()


@pytest.mark.usefixtures("server_lane")
def test_open_feeds_end_with_the_server(tmp_path: Path) -> None:
    with LiveServer(tmp_path, scheduler=False) as server, Feed(server) as feed:
        feed.until("ready")
        assert server.stop() == 0
        assert list(feed.events()) == []
    # Without an end, uvicorn waits for the stream, and cancels it, which it says.
    assert not [line for line in server.output if "Traceback" in line or "Cancel" in line]


def test_who_listens_hears_that_a_job_was_deleted(live: LiveServer) -> None:
    with Client(live.url) as client, Feed(live) as feed:
        feed.until("ready")
        job = client.submit(job_spec("goes away"))
        client.cancel(job.id)
        feed.until("job", job.id, "cancelled")
        client.delete(job.id)
        *_, told = feed.until("deleted", job.id)
        assert told["data"] == {"job_id": job.id}
