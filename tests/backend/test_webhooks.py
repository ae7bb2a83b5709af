"""Webhooks: who is told of what, how it is signed, when it is sent again, and where it never goes."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from fastapi import FastAPI
from sqlalchemy import update
from sqlalchemy.orm import Session

from backend.access.rights import Caller
from backend.db import Database, models, uuid7
from backend.db.models import Delivery, Race
from backend.lifecycle import Event, Reason
from backend.scheduler import outbox, record
from backend.schemas.webhooks import DeliveryQuery, NewWebhook, Told, WebhookRequest
from backend.services import delivering
from backend.services.delivering import AGAIN_S, Delivering, signed
from backend.services.errors import Conflict
from backend.services.old_entries import OldEntries
from backend.services.vault import Vault
from backend.services.webhooks import MOST, MOST_TESTS, Webhooks
from backend.sockets.outward import NotSentError, permitted, post
from engine.errors import UserError
from tests.backend.guarded import add_race, admin, let_in, refused, who_shows
from tests.backend.test_api_audit import entries

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)
ADA, BOB = Caller(name="ada", role="member"), Caller(name="bob", role="member")


class Receiver:
    """A real server on this machine, which keeps what it gets and answers as it is told."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.status = 204
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(receiver.status)
                if 300 <= receiver.status < 400:
                    self.send_header("Location", f"{receiver.url}elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    try:
        yield receiver
    finally:
        receiver.close()


class Post:
    """What sends, and who is told."""

    def __init__(self, database: Database, folder: Path) -> None:
        vault = Vault(folder / "secrets.key")
        self.database = database
        self.hooks = Webhooks(database, vault, LOOPBACK)
        self.delivering = Delivering(database, vault, LOOPBACK)

    def add(self, caller: Caller, url: str, *events: Told, everybodys: bool = False) -> NewWebhook:
        asked = WebhookRequest(name="a test's", url=url, events=list(events), everybodys=everybodys)
        return self.hooks.add(caller, asked)

    def log(self, caller: Caller, hook: NewWebhook) -> list[tuple[str, str, int, int | None]]:
        found = self.hooks.deliveries(caller, hook.id, DeliveryQuery()).items
        return [(one.event, one.state, one.tries, one.status) for one in found]

    def ends(self, owner: str, *, failed: bool = False) -> str:
        """A job of that user comes to its end."""

        def write(session: Session) -> str:
            row = models.Job(
                id=uuid7(), name="digits", owner=owner, spec={}, created_unix_ns=time.time_ns(), revision=0
            )
            record.submitted(session, row)
            if failed:
                record.advance(
                    session, row, None, Event.REFUSED, reason=Reason.TOO_FEW_DEVICES, message="no room"
                )
            else:
                record.cancel(session, row)
            return row.id

        return self.database.writer.run(write)

    def due_now(self) -> None:
        def write(session: Session) -> None:
            session.execute(update(Delivery).where(Delivery.next_unix_ns.is_not(None)).values(next_unix_ns=0))

        self.database.writer.run(write)


@pytest.fixture
def postman(small_database: Database, tmp_path: Path) -> Post:
    return Post(small_database, tmp_path)


# --- what is told ---


def test_who_is_told_of_what(new_database: Database, tmp_path: Path) -> None:
    postman = Post(new_database, tmp_path)
    with receiving() as receiver:
        own = postman.add(ADA, receiver.url, "job.ended")
        failures = postman.add(ADA, receiver.url, "job.failed", "job.ended")
        all_of_them = postman.add(BOB, receiver.url, "job.failed", "race.ended", everybodys=True)
        lost, left = postman.ends("ada", failed=True), postman.ends("ada")
        postman.ends("bob")
        race = add_race(postman.database, "ada")
        postman.database.writer.run(lambda session: outbox.race_ended(session, session.get_one(Race, race)))
        assert postman.delivering.look() is None, "all arrived: there is nothing to wait for"
        said = [(json.loads(body), headers) for headers, body in receiver.got]
    assert postman.log(ADA, own) == [("job.ended", "delivered", 1, 204), ("job.failed", "delivered", 1, 204)]
    assert [entry[0] for entry in postman.log(ADA, failures)] == ["job.ended", "job.failed"], "each end once"
    assert [entry[0] for entry in postman.log(BOB, all_of_them)] == ["race.ended", "job.failed"]
    assert len(said) == 6
    about = [content["job"] for content, _ in said if content["event"] == "job.failed"]
    assert {(job["id"], job["state"], job["reason"], job["message"]) for job in about} == {
        (lost, "failed", "too-few-devices", "no room")
    }
    assert left in {content["job"]["id"] for content, _ in said if content["event"] == "job.ended"}
    (told,) = [content for content, _ in said if content["event"] == "race.ended"]
    assert (told["race"]["id"], told["text"]) == (race, "Race a race failed")
    assert len({headers["webhook-id"] for _, headers in said}) == 6


def test_a_message_is_signed_as_standard_webhooks_has_it(postman: Post) -> None:
    with receiving() as receiver:
        hook = postman.add(ADA, f"{receiver.url}hooks/SECRET-PATH?key=1", "job.ended")
        postman.ends("ada")
        postman.delivering.look()
        ((headers, body),) = receiver.got
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(hook.key.removeprefix("whsec_"))
    wanted = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{wanted}"
    assert headers["content-type"] == "application/json"
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 600
    shown = postman.hooks.all(ADA)[0].model_dump_json()
    assert hook.host == receiver.url.rstrip("/")
    assert "SECRET-PATH" not in shown
    assert hook.key not in shown
    with postman.database.read() as session:
        row = session.get_one(models.Webhook, hook.id)
        assert "SECRET-PATH" not in row.sealed + row.host


def test_the_librarys_own_example_of_a_signature() -> None:
    """Of the specification of Standard Webhooks."""
    headers = signed(
        "whsec_plJ3nmyCDGBKInavdOK15jsl",
        "msg_loFOjxBNrRLzqYUf",
        1731705121,
        b'{"event_type":"ping","data":{"success":true}}',
    )
    assert headers["webhook-signature"] == "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0="


# --- what does not arrive ---


def test_what_a_receiver_does_not_take_is_sent_again_and_given_up_in_the_end(postman: Post) -> None:
    with receiving() as receiver:
        receiver.status = 500
        hook = postman.add(ADA, receiver.url, "job.ended")
        first, second = postman.ends("ada"), postman.ends("ada")
        wait_s = postman.delivering.look()
        assert wait_s is not None
        assert 0 < wait_s <= AGAIN_S[0]
        assert len(receiver.got) == 2, "one that is refused holds up no other"
        assert postman.log(ADA, hook)[1] == ("job.ended", "waiting", 1, 500)
        receiver.status = 200
        postman.due_now()
        postman.delivering.look()
        assert [json.loads(body)["job"]["id"] for _, body in receiver.got] == 2 * [first, second]
        assert len({headers["webhook-id"] for headers, _ in receiver.got}) == 2, "it keeps its id"
        receiver.status = 503
        postman.ends("ada")
        for _ in range(len(AGAIN_S) + 1):
            postman.due_now()
            postman.delivering.look()
        assert postman.log(ADA, hook)[0] == ("job.ended", "failed", len(AGAIN_S) + 1, 503)
        assert postman.delivering.look() is None


def test_a_receiver_that_is_away_uses_up_the_tries_of_all_that_is_due(
    postman: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one message of each webhook goes in a round: who has many holds up nobody."""
    sent: list[str] = []

    def away(url: str, *_: object, **__: object) -> int:
        sent.append(url[-1])
        if url.endswith("a"):
            raise ValueError("of no kind that anybody expects")
        return 204

    monkeypatch.setattr(delivering, "post", away)
    hooks = [postman.add(who, f"http://127.0.0.1/{who.name}", "job.ended") for who in (ADA, BOB)]
    for who in ("ada", "ada", "bob", "bob"):
        postman.ends(who)
    postman.delivering.look()
    assert sorted(sent[:2]) == ["a", "b"], "one of each"
    assert len(sent) == 3
    assert postman.log(ADA, hooks[0]) == 2 * [("job.ended", "waiting", 1, None)]
    for _ in AGAIN_S:
        postman.due_now()
        postman.delivering.look()
    assert postman.log(ADA, hooks[0]) == 2 * [("job.ended", "failed", len(AGAIN_S) + 1, None)]
    assert sent.count("a") == len(AGAIN_S) + 1


def test_tests_that_wait_are_bounded_and_stay_until_they_were_tried(postman: Post) -> None:
    hook = postman.add(ADA, "http://127.0.0.1:9/", "job.ended")
    for _ in range(MOST_TESTS):
        postman.hooks.try_out(ADA, hook.id)
    with pytest.raises(Conflict, match="which is the most"):
        postman.hooks.try_out(ADA, hook.id)
    OldEntries(postman.database, Delivery, days=-1).look()
    assert postman.hooks.all(ADA)[0].waiting == MOST_TESTS


def test_a_redirect_is_not_followed(postman: Post) -> None:
    with receiving() as receiver:
        receiver.status = 302
        hook = postman.add(ADA, receiver.url, "job.ended")
        postman.ends("ada")
        postman.delivering.look()
        assert len(receiver.got) == 1
        (entry,) = postman.hooks.deliveries(ADA, hook.id, DeliveryQuery()).items
    assert (entry.status, entry.state) == (302, "waiting")
    assert "a redirect, which is not followed" in str(entry.trouble)


def test_a_receiver_that_answers_a_byte_at_a_time_ends_at_the_deadline() -> None:
    """Each byte comes in time; the answer never does. The deadline leaves a loaded machine the time to connect."""
    sent = 0
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        port = listener.getsockname()[1]

        def drip() -> None:
            nonlocal sent
            with suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    while True:
                        sent += connection.send(b"H")
                        time.sleep(0.01)

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        with pytest.raises(NotSentError):
            post(f"http://127.0.0.1:{port}/", {}, b"{}", allowed=LOOPBACK, deadline_s=1)
        thread.join(60)
    assert sent > 1


# --- where nothing goes ---

INNER = [
    "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "224.0.0.1", "255.255.255.255", "192.0.2.7", "::1", "::", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1",
    "fe80::1", "fd00::1", "ff02::1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a00:1::1",
    "fec0::1", "::ffff:0:7f00:1", "64:ff9b:1::a9fe:a9fe", "4000::1",
    "not an address", "",
]  # fmt: skip


@pytest.mark.parametrize("address", INNER)
def test_an_address_within_is_not_permitted(address: str) -> None:
    assert not permitted(address, ())


def test_public_addresses_and_those_that_are_allowed_are() -> None:
    assert permitted("93.184.215.14", ())
    assert permitted("2606:2800:21f:cb07:6820:80da:af6b:8b2c", ())
    assert permitted("64:ff9b::5db8:d70e", ()), "NAT64 of a public address"
    assert permitted("10.1.2.3", (ipaddress.ip_network("10.1.0.0/16"),))
    assert not permitted("10.2.0.1", (ipaddress.ip_network("10.1.0.0/16"),))


def test_what_is_not_allowed_is_never_connected_to(small_database: Database, tmp_path: Path) -> None:
    """`localhost` is a name: what it leads to is looked at when the message is sent."""
    vault = Vault(tmp_path / "secrets.key")
    hooks = Webhooks(small_database, vault, ())
    with receiving() as receiver:
        named = receiver.url.replace("127.0.0.1", "localhost")
        asked = WebhookRequest(name="inner", url=named, events=["job.ended"])
        hook = hooks.add(ADA, asked)
        hooks.try_out(ADA, hook.id)
        Delivering(small_database, vault, ()).look()
        assert receiver.got == []
    (entry,) = hooks.deliveries(ADA, hook.id, DeliveryQuery()).items
    assert "TRAINYARD_WEBHOOK_NETWORKS" in str(entry.trouble)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/", "file:///etc/passwd", "gopher://example.org", "example.org", "https://", "http://[::1]/",
        "http://127.0.0.1:8000/api/v1/jobs", "http://169.254.169.254/latest/meta-data", "http://[fe80::1%25eth0]/",
        "https://user:pass@example.org/", "https://example.org@127.0.0.1/", "https://example.org:port/",
        "https://exa mple.org/", "https://example.org/\r\nX: y", "https://examplé.org/", "https://[::ffff:10.0.0.1]/",
        "http://\\127.0.0.1/", "http://example.org\\@127.0.0.1/",
    ],
)  # fmt: skip
def test_what_is_no_address_for_messages_is_refused(postman: Post, url: str) -> None:
    hooks = Webhooks(postman.database, Vault(Path("nowhere")), ())
    with pytest.raises(UserError) as error:
        hooks.add(ADA, WebhookRequest(name="x", url=url, events=["job.ended"]))
    assert "pass@" not in str(error.value)


# --- whose they are ---


def test_webhooks_over_the_api(guarded: FastAPI) -> None:
    boss = admin(guarded)
    eve, sam = (who_shows(guarded, let_in(guarded, name, "member")) for name in ("eve", "sam"))
    asked = {"name": "chat", "url": "https://chat.example.org/hooks/SECRET", "events": ["job.failed"]}
    made = eve.post("/api/v1/webhooks", json=asked)
    assert (made.status_code, made.headers["cache-control"]) == (201, "no-store"), made.text
    hook, address = made.json(), f"/api/v1/webhooks/{made.json()['id']}"
    assert hook["key"].startswith("whsec_")
    assert made.headers["location"] == address
    shown = {name: value for name, value in hook.items() if name != "key"}
    assert eve.get("/api/v1/webhooks").json() == [shown]
    assert boss.get("/api/v1/webhooks").json() == [shown]
    assert sam.get("/api/v1/webhooks").json() == []
    for answer in (
        sam.delete(address),
        sam.post(f"{address}/test", json={}),
        sam.get(f"{address}/deliveries"),
    ):
        assert "no such webhook" in refused(answer, 404)
    assert "SECRET" not in eve.get("/api/v1/webhooks").text + boss.get("/api/v1/audit").text
    entry = entries(guarded, action="add_webhook")[0]
    assert (entry["details"]["name"], entry["details"]["host"]) == ("chat", "https://chat.example.org")
    for number in range(MOST - 1):
        assert eve.post("/api/v1/webhooks", json={**asked, "name": str(number)}).status_code == 201
    assert "which is the most" in refused(eve.post("/api/v1/webhooks", json=asked), 409)
    for wrong in ({}, {**asked, "events": []}, {**asked, "events": ["job.began"]}, {**asked, "url": "x"}):
        assert eve.post("/api/v1/webhooks", json=wrong).status_code == 422
    assert eve.delete(address).status_code == 204
    assert "no such webhook" in refused(eve.get(f"{address}/deliveries"), 404)
    assert boss.delete("/api/v1/users/eve").status_code == 204
    assert boss.get("/api/v1/webhooks").json() == [], "they go with their user"
