"""Where messages to addresses that people name are connected to, and for how long that is tried."""

from __future__ import annotations

import socket
import threading

import pytest

from backend.sockets import outward
from backend.sockets.outward import NotSentError, post


def test_a_name_that_leads_elsewhere_a_moment_later_is_of_no_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """DNS rebinding: a public address for who checks, this machine's for who connects. The name is resolved once, and
    that very address is connected to."""
    public = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.215.14", 80))]
    asked: list[str] = []
    connected: list[str] = []

    def resolve(host: str, *_: object, **__: object) -> list[object]:
        asked.append(host)
        if len(asked) > 1:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80))]
        return list(public)

    def connect(_: object, host: str, port: int, **__: object) -> None:
        connected.append(host)
        raise outward.httpcore.ConnectError("nobody is asked in a test")

    monkeypatch.setattr(outward.socket, "getaddrinfo", resolve)
    monkeypatch.setattr(outward.httpcore.SyncBackend, "connect_tcp", connect)
    with pytest.raises(NotSentError):
        post("http://rebound.example/", {}, b"{}", allowed=(), deadline_s=5)
    assert (asked, connected) == (["rebound.example"], ["93.184.215.14"])
    with pytest.raises(NotSentError, match=r"leads to 127\.0\.0\.1: no public address"):
        post("http://rebound.example/", {}, b"{}", allowed=(), deadline_s=5)
    assert len(connected) == 1


def test_an_address_that_does_not_answer_leaves_time_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    two = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"93.184.215.{last}", 80)) for last in (14, 15)]
    tried: list[tuple[str, bool]] = []

    def connect(_: object, host: str, port: int, *, timeout: float, **__: object) -> None:
        tried.append((host, timeout <= 50))
        raise outward.httpcore.ConnectTimeout("nobody is asked in a test")

    monkeypatch.setattr(outward.socket, "getaddrinfo", lambda *_, **__: two)
    monkeypatch.setattr(outward.httpcore.SyncBackend, "connect_tcp", connect)
    with pytest.raises(NotSentError):
        post("http://two.example/", {}, b"{}", allowed=(), deadline_s=100)
    assert tried == [("93.184.215.14", True), ("93.184.215.15", False)]


def test_a_name_that_nobody_resolves_ends_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(outward.socket, "getaddrinfo", lambda *_, **__: go_on.wait() and [])
    try:
        with pytest.raises(NotSentError, match="within the deadline"):
            post("http://slow.example/", {}, b"{}", allowed=(), deadline_s=1)
    finally:
        go_on.set()  # whoever waits for the name's thread, as Python does at its end, would wait for ever
