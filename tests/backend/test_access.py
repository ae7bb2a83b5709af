"""Tokens, addresses and guesses, without a server."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from uvicorn.middleware.proxy_headers import _TrustedHosts

from backend.access import token as tokens
from backend.access.addresses import is_loopback
from backend.access.allowance import BURST_S, Allowances
from backend.access.guesses import BURST, EVERY_S, MOST_CLIENTS, Guesses
from backend.cli.serve import read_settings
from backend.server import listen
from engine.errors import UserError

TOKEN = "Gr3en-eggs_and.ham"


def digest(guess: object) -> bytes:
    return hashlib.sha256(str(guess).encode()).digest()


# --- tokens ---


def test_a_fresh_token_is_one_and_needs_no_quotes() -> None:
    made = {tokens.new_token() for _ in range(300)}
    assert len(made) == 300
    for token in made:
        assert tokens.checked(token) == token
        assert len(token) >= 43
        assert token.replace("-", "").replace("_", "").isalnum()
        assert not token.startswith("-")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "\n",
        "fifteen-letters",
        "x" * 513,
        "a token of some words",
        "ein-schöner-token",
        "sixteen\0letters!",
    ],
)
def test_what_is_no_token_is_refused_and_not_repeated(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"TRAINYARD_TOKEN = .*trainyard token") as refused:
        tokens.checked(text)
    assert not text.strip() or text.strip() not in str(refused.value)
    if "\0" in text:
        return  # no environment holds it
    monkeypatch.setenv("TRAINYARD_TOKEN", text)
    for read in (read_settings, tokens.from_environment):
        with pytest.raises(UserError) as refused:
            read()
        assert not text.strip() or text.strip() not in str(refused.value)


def test_a_token_comes_from_the_environment_or_a_file_not_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert tokens.from_environment() is None
    assert read_settings().token is None
    monkeypatch.setenv("TRAINYARD_TOKEN_FILE", str(file))
    assert tokens.from_environment() == read_settings().own_token == TOKEN
    monkeypatch.setenv("TRAINYARD_TOKEN", TOKEN)
    for read in (read_settings, tokens.from_environment):
        with pytest.raises(UserError, match="TRAINYARD_TOKEN is set, too"):
            read()
    monkeypatch.delenv("TRAINYARD_TOKEN_FILE")
    assert tokens.from_environment() == read_settings().own_token == TOKEN


@pytest.mark.parametrize("content", [None, b"", b"\xff" * 20, b"short"])
def test_a_file_without_a_token_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("TRAINYARD_TOKEN_FILE", str(file))
    for read in (read_settings, tokens.from_environment):
        with pytest.raises(UserError, match="TRAINYARD_TOKEN_FILE = "):
            read()


def test_a_tokens_file_is_new_and_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        tokens.write(TOKEN, tmp_path / "token")
    finally:
        os.umask(before)
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    assert tokens.read(tmp_path / "token") == TOKEN
    with pytest.raises(UserError, match="not there yet"):
        tokens.write("another-token-of-ours", tmp_path / "token")
    assert tokens.read(tmp_path / "token") == TOKEN


def test_settings_do_not_show_their_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_TOKEN", TOKEN)
    settings = read_settings()
    assert TOKEN not in repr(settings) + str(settings.model_dump()) + settings.model_dump_json()


def test_a_token_and_insecure_contradict_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"insecure = True: people is set, too"):
        read_settings(insecure=True, people=True)
    monkeypatch.setenv("TRAINYARD_TOKEN", TOKEN)
    with pytest.raises(UserError, match=r"insecure = True: token is set, too"):
        read_settings(insecure=True)


@pytest.mark.parametrize(
    ("host", "given", "asks"),
    [
        ("127.0.0.1", {}, False), ("localhost", {}, False), ("::1", {}, False), ("0.0.0.0", {}, True), ("::", {}, True),
        ("0", {}, True), ("192.0.2.1", {}, True), ("127.0.0.1", {"people": True}, True),
        ("127.0.0.1", {"token": TOKEN}, True), ("0.0.0.0", {"insecure": True}, False),
    ],
)  # fmt: skip
def test_people_are_asked_wherever_others_reach_the_server(
    host: str, given: dict[str, object], asks: bool
) -> None:
    settings = read_settings(host=host, **given)
    assert settings.asks is asks
    assert settings.for_others is (asks or "insecure" in given)


@pytest.mark.parametrize("text", ["lab, GPU1.example", '["lab", "gpu1.example"]', "lab,,gpu1.example,"])
def test_allowed_hosts_are_written_as_people_do(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_ALLOWED_HOSTS", text)
    assert {"lab", "gpu1.example", "localhost"} <= read_settings().hosts
    monkeypatch.setenv("TRAINYARD_ALLOWED_HOSTS", "")
    assert read_settings().hosts == {"127.0.0.1", "localhost", "::1"}


def test_a_proxy_is_an_address_or_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_PROXIES", "127.0.0.1, 10.0.0.0/8")
    assert read_settings().proxies == ("127.0.0.1", "10.0.0.0/8")
    monkeypatch.setenv("TRAINYARD_PROXIES", "10.0.0.1/8, fd00::1/64")
    assert read_settings().proxies == ("10.0.0.0/8", "fd00::/64"), "as uvicorn can read them"
    assert "10.2.3.4" in _TrustedHosts(list(read_settings().proxies))
    monkeypatch.setenv("TRAINYARD_PROXIES", "nginx")
    with pytest.raises(UserError, match=r"proxies = 'nginx': is neither an address nor a network"):
        read_settings()


# --- addresses ---


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_loopback(address: str) -> None:
    assert is_loopback(address)


@pytest.mark.parametrize(
    "address",
    ["0.0.0.0", "::", "::ffff:0.0.0.0", "192.168.1.5", "::ffff:10.0.0.1", "fe80::1%eth0", "", "localhost"],
)
def test_not_loopback(address: str) -> None:
    assert not is_loopback(address)


@pytest.mark.parametrize("host", ["0.0.0.0", "0", "::", "::ffff:0.0.0.0", "192.0.2.1"])
def test_nothing_listens_beyond_loopback_unasked(host: str) -> None:
    with pytest.raises(UserError, match="other machines reach") as refused:
        listen(host, 0, for_others=False)
    assert refused.value.field == "host"
    for remedy in ("127.0.0.1", "TRAINYARD_TOKEN=$(trainyard token)", "--insecure"):
        assert remedy in refused.value.remedy


def test_what_a_host_resolves_to_is_judged() -> None:
    with pytest.raises(UserError, match=r"host = '0': other machines reach it, as 0\.0\.0\.0"):
        listen("0", 0, for_others=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1"])
def test_loopback_needs_no_token(host: str) -> None:
    with listen(host, 0, for_others=False) as sock:
        assert is_loopback(sock.getsockname()[0])


# --- allowances ---


def test_a_token_has_a_burst_and_then_its_rate() -> None:
    allowances = Allowances(per_second=2.0)
    burst = round(2.0 * BURST_S)
    assert [allowances.wait_s(7, 0.0) for _ in range(burst)] == [0.0] * burst
    assert allowances.wait_s(7, 0.0) == 0.5
    assert allowances.wait_s(8, 0.0) == 0, "another token has its own"
    assert allowances.wait_s(7, 0.25) == 0.25, "who is refused loses nothing"
    assert allowances.wait_s(7, 0.5) == 0
    assert allowances.wait_s(7, 0.5) == 0.5
    assert [allowances.wait_s(7, 1e6) for _ in range(burst + 1)] == [0.0] * burst + [0.5], (
        "and no more after a rest"
    )


def test_a_small_rate_lets_one_request_through() -> None:
    allowances = Allowances(per_second=0.01)
    assert allowances.wait_s(7, 0.0) == 0
    assert allowances.wait_s(7, 0.0) == 100


# --- guesses ---


def test_guesses_run_out_and_come_back() -> None:
    guesses = Guesses()
    for guess in range(BURST):
        assert guesses.wait_s("192.0.2.1", 0) == 0
        guesses.wrong("192.0.2.1", digest(guess), 0)
    assert guesses.wait_s("192.0.2.1", 0) == EVERY_S
    assert guesses.wait_s("192.0.2.1", EVERY_S / 2) == EVERY_S / 2
    assert guesses.wait_s("192.0.2.1", EVERY_S) == 0
    guesses.wrong("192.0.2.1", digest("one more"), EVERY_S)
    assert guesses.wait_s("192.0.2.1", EVERY_S) == EVERY_S
    assert guesses.wait_s("192.0.2.2", 0) == 0, "another client has its own"
    assert guesses.wait_s("192.0.2.1", 1e6) == 0


def test_the_same_wrong_token_is_no_guess() -> None:
    guesses = Guesses()
    guesses.wrong("192.0.2.1", digest("old"), 0)
    assert guesses.repeats("192.0.2.1", digest("old"))
    assert not guesses.repeats("192.0.2.1", digest("new"))
    assert not guesses.repeats("192.0.2.2", digest("old"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2001:db8::1", "2001:db8::ffff:1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("a proxy's name for it", "x" * 10_000),
        (None, "testclient"),
    ],
)
def test_addresses_of_one_client_are_counted_together(one: str | None, other: str | None) -> None:
    guesses = Guesses()
    for guess in range(BURST):
        guesses.wrong(one, digest(guess), 0)
    assert guesses.wait_s(other, 0) > 0


def test_guesses_from_many_addresses_take_neither_more_memory_nor_more_guesses() -> None:
    guesses = Guesses()
    looked_at = 0
    for client in range(3 * MOST_CLIENTS):
        address = f"10.{client >> 16}.{client >> 8 & 255}.{client & 255}"
        for guess in range(BURST):
            if not guesses.wait_s(address, 0):
                looked_at += 1
                guesses.wrong(address, digest(guess), 0)
    assert looked_at == (MOST_CLIENTS + 1) * BURST
    assert len(guesses._clients) == MOST_CLIENTS + 1
    later = BURST * EVERY_S
    guesses.wrong("11.0.0.1", digest("later"), later)
    assert len(guesses._clients) == 1, "who has all guesses back need not be remembered"
