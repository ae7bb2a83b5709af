"""A real server with a token, listening for others: strangers who write their own requests, jobs, clients, commands."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from socket import create_connection
from urllib.parse import urlsplit

import httpx
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from backend.access.guesses import BURST
from backend.cli.background import BackgroundServer
from backend.cli.main import app
from backend.cli.serve import warn
from backend.client import ApiError, Client
from backend.executors.environment import SECRETS
from backend.settings import Settings
from tests.backend.executor_attempts import until
from tests.backend.guarded import TOKEN, WITH_TOKEN
from tests.backend.job_specs import JSON, job_spec
from tests.backend.live_server import DIRECT, ROOT, LiveServer, environment, run
from tests.databases import url_of

pytestmark = pytest.mark.usefixtures("server_lane")
LIMIT_S = 120.0
HOST = "Host: 127.0.0.1"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """Afterwards: nothing that it said tells the token, and nothing made it stumble."""
    with LiveServer(
        tmp_path_factory.mktemp("guarded"), scheduler=False, token=TOKEN, host="0.0.0.0"
    ) as found:
        yield found
        found.stop()
    said = "".join(found.output)
    assert "and asks for a token" in said
    assert TOKEN not in said
    assert "a wrong token came from 127.0.0.1" in said
    assert "latin-one" not in said, "nor a wrong one"
    assert "Traceback" not in said


def spoken(server: LiveServer, *lines: str) -> tuple[int, str, str | None]:
    """Status, body and redirection that a head of exactly these lines gets."""
    address = urlsplit(server.url)
    with create_connection((str(address.hostname), address.port or 80), timeout=30) as connection:
        connection.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1"))
        answer = HTTPResponse(connection, method=lines[0].partition(" ")[0])
        answer.begin()
        return answer.status, answer.read().decode(), answer.getheader("location")


# --- strangers ---


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/jobs", "/api/v1/jobs/", "//api/v1/jobs", "/api//v1/jobs", "/api/v1//jobs", "/API/v1/jobs",
        "/api/V1/jobs", "/%61pi/v1/jobs", "/api%2Fv1%2Fjobs", "/api/v1/./jobs", "/x/../api/v1/jobs",
        "/api/v1/health/../jobs", "/api/v1/health/%2e%2e/jobs", "/api/v1/health%2F..%2Fjobs", "/api/v1/health/x",
        "/api/v1/jobs%0A", "/api/v1/jobs%20", "/api/v1/jobs;a=b", "/api/v1/jobs%3F", "/api/v1/jobs%00",
        "/api/v1/attempts/1/batches/../../../jobs", "\\api\\v1\\jobs", "/\\api/v1/jobs", "/api\\v1\\jobs",
        "/./api/v1/jobs", "/api/v1/jobs#", "/api/v1/jobs?/api/v1/health", "/api/v1/%6aobs", "api/v1/jobs", "*",
        "http://127.0.0.1/api/v1/jobs", "http://evil.example/api/v1/jobs", "//evil.example/api/v1/jobs",
        "/api/v1/openapi.json", "/api/v1/openapi.json/", "/openapi.json", "/docs", "/redoc",
        "//evil.example/%2e%2e", "/%5cevil.example/%2e%2e",
        "/assets/../../../etc/passwd", "/..%2f..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/pyproject.toml",
    ],
)  # fmt: skip
def test_no_spelling_of_an_address_passes(server: LiveServer, path: str) -> None:
    """It is refused, or answered with the page, which is the same for everybody; and nobody is sent elsewhere."""
    for version in ("1.1", "1.0"):
        status, body, location = spoken(server, f"GET {path} HTTP/{version}", HOST)
        assert status in (307, 400, 401, 404, 405, 422) or (
            status == 200 and body.startswith("<!doctype html>")
        ), body
        assert '"items"' not in body
        assert location is None or location.startswith("http://127.0.0.1/")


@pytest.mark.parametrize(
    "lines",
    [
        ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAA"],
        ["Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABk"],
        ["X-Original-URL: /api/v1/health"], ["X-Rewrite-URL: /api/v1/health"], ["X-HTTP-Method-Override: OPTIONS"],
        ["X-Forwarded-Prefix: /api/v1/jobs"], ["X-Forwarded-For: 127.0.0.1"], ["X-Forwarded-Host: localhost"],
        ["Forwarded: for=127.0.0.1;host=localhost"], ["Referer: http://127.0.0.1/"], ["Origin: http://127.0.0.1"],
        ["Authorization:"], ["Authorization: Bearer"], ["Authorization: Bearer \t "], ["Authorization: Basic Og=="],
        ["Authorization: Bearer " + "x" * 30_000], ["Authorization: Bearer \xe4\xf6\xfc-\xff\xfe-latin-one"],
        ["Cookie: trainyard-session="], ["Cookie: trainyard-session"], ["Cookie: " + "trainyard-session=x; " * 1_000],
        ["Cookie: trainyard-session=\"\\303\\244\""], ["Cookie: trainyard-session=\xe4"], ["Cookie: ;=;=;"],
    ],
)  # fmt: skip
def test_no_head_of_a_request_passes(server: LiveServer, lines: list[str]) -> None:
    for method in ("GET", "HEAD", "OPTIONS", "CONNECT", "TRACE", "PROPFIND", "get"):
        status, _, _ = spoken(
            server, f"{method} /api/v1/jobs HTTP/1.1", HOST, "Content-Type: application/json", *lines
        )
        assert status in (400, 401, 431, 501), method


@pytest.mark.parametrize(
    "hosts", [[], ["Host:"], ["Host: rebound.example"], [HOST, "Host: rebound.example"], ["Host: [::1"]]
)
def test_a_host_of_nobody_is_refused_with_the_token_too(server: LiveServer, hosts: list[str]) -> None:
    for version in ("1.1", "1.0"):
        first = f"GET /api/v1/jobs HTTP/{version}"
        assert spoken(server, first, *hosts, f"Authorization: Bearer {TOKEN}")[0] in (400, 421)


def test_a_strangers_body_is_not_read(server: LiveServer) -> None:
    for path in ("/api/v1/jobs", "/api/v1/plans", "/anything"):
        connection = HTTPConnection(urlsplit(server.url).netloc, timeout=60)
        connection.putrequest("POST", path)
        for name, value in {**JSON, "Content-Length": "1000000"}.items():
            connection.putheader(name, value)
        connection.endheaders()  # and no body: a server that reads it first waits for ever
        assert connection.getresponse().status == 401
        connection.close()


def test_a_strangers_body_has_an_end(server: LiveServer) -> None:
    address = urlsplit(server.url)
    lines = (
        "POST /api/v1/jobs HTTP/1.1",
        HOST,
        "Content-Type: application/json",
        "Transfer-Encoding: chunked",
    )
    with create_connection((str(address.hostname), address.port or 80), timeout=30) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        more_than_sockets_hold = (b"10000\r\n" + b"x" * 65_536 + b"\r\n") * 2048
        with pytest.raises(OSError, match=r"reset|[Bb]roken pipe"):
            connection.sendall(more_than_sockets_hold)


# --- those who may ---


def test_the_live_feed_comes_with_a_session_and_with_the_token(server: LiveServer) -> None:
    with httpx.Client(base_url=server.url, timeout=30, **DIRECT) as http:
        assert http.get("/api/v1/notices").status_code == 401
        http.post("/api/v1/session", json={"token": TOKEN}).raise_for_status()
        for headers in ({}, WITH_TOKEN):
            with http.stream("GET", "/api/v1/notices", headers=headers) as feed:
                assert feed.status_code == 200
                assert next(line for line in feed.iter_lines() if line.startswith("event:")) == "event: ready"
            http.cookies.clear()


def test_a_feed_ends_with_its_session(server: LiveServer) -> None:
    """Also for whoever copied the cookie."""
    with (
        httpx.Client(base_url=server.url, timeout=30, **DIRECT) as http,
        Client(server.url, token=TOKEN) as client,
    ):
        http.post("/api/v1/session", json={"token": TOKEN}).raise_for_status()
        with http.stream("GET", "/api/v1/notices") as feed:
            lines = feed.iter_lines()
            assert next(line for line in lines if line.startswith("event:")) == "event: ready"
            client.submit(job_spec("seen"))
            assert next(line for line in lines if line.startswith("event:")) == "event: job"
            assert http.delete("/api/v1/session", headers=JSON).status_code == 204
            job_id = client.submit(job_spec("not seen")).id
            assert not [line for line in lines if job_id in line], "and it has ended"


def test_the_client_takes_the_token_as_it_finds_it(
    server: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(server.url, token=TOKEN) as client:
        assert list(client.jobs(state="running")) == []
    with Client(server.url) as client, pytest.raises(ApiError, match="TRAINYARD_TOKEN") as refused:
        client.strategies()
    assert refused.value.status == 401
    monkeypatch.setenv("TRAINYARD_TOKEN_FILE", str(tmp_path / "token"))
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    with Client(server.url) as client:
        assert client.strategies()
        assert client.health().access == "token"


def test_commands_take_the_token_and_say_what_to_do_without(server: LiveServer) -> None:
    listed = run("list", "--url", server.url, token=TOKEN)
    assert (listed.returncode, listed.stderr) == (0, "")
    without = run("list", "--url", server.url)
    assert without.returncode == 2
    assert "this server asks for a token" in without.stderr
    assert "TRAINYARD_TOKEN" in without.stderr
    assert "Traceback" not in without.stderr


def test_no_command_takes_a_token_as_an_argument() -> None:
    """Arguments are in the process list of every user."""
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert {"serve", "list", "submit", "token"} <= set(commands)
    options = {option for command in commands.values() for given in command.params for option in given.opts}
    assert "--url" in options
    assert not [option for option in options if "token" in option]


def test_the_images_health_check_needs_no_token(server: LiveServer) -> None:
    (line,) = re.findall(r"HEALTHCHECK .*\\\n\s+CMD (\[.*\])", (ROOT / "docker" / "Dockerfile").read_text())
    program, *arguments = json.loads(line)
    port = urlsplit(server.url).port
    checked = subprocess.run(
        [program, *arguments], env={**os.environ, "TRAINYARD_PORT": str(port)}, check=False
    )
    assert checked.returncode == 0


@pytest.mark.parametrize("token", [None, TOKEN])
def test_a_program_that_is_both_server_and_client_works_with_and_without(
    tmp_path: Path, token: str | None
) -> None:
    wanted = Settings(
        data_dir=tmp_path, database_url=url_of(tmp_path), port=0, cpu_devices=2, scheduler=False, token=token
    )  # type: ignore[arg-type]
    with (
        BackgroundServer(wanted) as server,
        Client(server.settings.address, token=wanted.own_token) as client,
    ):
        assert list(client.jobs()) == []
        assert httpx.get(f"{server.settings.address}/api/v1/jobs", **DIRECT).status_code == (
            200 if token is None else 401
        )


@pytest.mark.parametrize("proxies", [(), ("127.0.0.0/8",)])
def test_only_a_proxy_that_is_named_says_who_guesses(tmp_path: Path, proxies: tuple[str, ...]) -> None:
    wanted = Settings(
        data_dir=tmp_path,
        database_url=url_of(tmp_path),
        port=0,
        scheduler=False,
        token=TOKEN,
        proxies=proxies,
    )  # type: ignore[arg-type]
    with BackgroundServer(wanted) as server, httpx.Client(**DIRECT) as stranger:
        answers = [
            stranger.get(
                f"{server.settings.address}/api/v1/jobs",
                headers={"Authorization": f"Bearer guess-{guess}", "X-Forwarded-For": f"203.0.113.{guess}"},
            ).status_code
            for guess in range(BURST + 1)
        ]
    assert answers == [401] * BURST + [401 if proxies else 429]


# --- jobs ---


def test_a_jobs_telemetry_arrives_and_its_code_does_not_get_the_token(
    tmp_path: Path, descriptions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "of-the-database")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "cache").symlink_to(descriptions)
    (tmp_path / "mine.py").write_text(
        "import json, os, pathlib\n"
        "from torch import nn\n"
        "def build():\n"
        "    seen, above, held = [dict(os.environ)], os.getppid(), pathlib.Path('/proc')\n"
        "    while above > 1:\n"
        "        parts = (held / str(above) / 'environ').read_text().split('\\0')\n"
        "        found = dict(part.split('=', 1) for part in parts if '=' in part)\n"
        "        if 'TRAINYARD_ATTEMPT_DIRECTORY' not in found:\n"
        "            break\n"
        "        seen.append(found)\n"
        "        above = int((held / str(above) / 'stat').read_text().rpartition(')')[2].split()[1])\n"
        "    pathlib.Path(__file__).with_name(f'seen-{os.getpid()}.json').write_text(json.dumps(seen))\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
    )
    spec = job_spec(
        model={"entrypoint": "mine:build", "directory": str(tmp_path)},
        training={"steps": 3, "global_batch": 32},
    )
    with (
        LiveServer(tmp_path / "data", cpu_devices=2, token=TOKEN, host="0.0.0.0") as server,
        Client(server.url, token=TOKEN) as client,
    ):
        job = client.wait(client.submit(spec).id, timeout_s=LIMIT_S)
        assert (job.state, job.attempts[0].sealed) == ("succeeded", True), job.message
        assert len(client.metrics(job.id, "loss").series["loss"]) == 3
        kept = [path for path in (tmp_path / "data" / "jobs").rglob("*") if path.is_file()]
        (held,) = (tmp_path / "data" / "jobs").rglob("ingest.json")
        with Client(server.url, token=json.loads(held.read_text())["token"]) as attempt:
            for ask in (attempt.jobs, attempt.users, attempt.tokens, lambda: [attempt.cancel(job.id)]):
                with pytest.raises(ApiError) as shut:
                    list(ask())
                assert shut.value.status == 401, (
                    "what the attempt's processes hold opens nothing but its telemetry"
                )
    trees = [json.loads(path.read_text()) for path in tmp_path.glob("seen-*.json")]
    assert len(trees) >= 3, "described once, and built by two workers"
    assert max(map(len, trees)) >= 4, "a worker, the fork server, the supervisor and its watchdog"
    seen = [each for tree in trees for each in tree]
    assert any("TRAINYARD_ATTEMPT_DIRECTORY" in each for each in seen)
    for each in seen:
        assert TOKEN not in each.values()
        assert not SECRETS & set(each)
    assert len(kept) > 5
    assert not [path for path in kept if TOKEN.encode() in path.read_bytes()], (
        "what an attempt leaves has no token"
    )
    assert TOKEN not in "".join(server.output)


# --- starting ---


def test_a_server_for_everybody_makes_its_first_admin_and_says_so_once(tmp_path: Path) -> None:
    with LiveServer(tmp_path, scheduler=False, host="0.0.0.0") as server:
        with Client(server.url) as stranger, pytest.raises(ApiError, match="asks for a token"):
            stranger.strategies()
        until(lambda: any("first admin's token" in line for line in server.output), "the token is shown")
        (token,) = re.findall(r"first admin's token, shown only now: (\S+)", "".join(server.output))
        with Client(server.url, token=token) as client:
            assert (client.whoami().user, client.whoami().role) == ("admin", "admin")
            theirs = client.make_token("laptop").token
        server.stop()
    assert "".join(server.output).count(token) == 1
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [
        path for path in kept if token.encode() in path.read_bytes() or theirs.encode() in path.read_bytes()
    ]
    with LiveServer(tmp_path, scheduler=False, host="0.0.0.0") as server:
        with Client(server.url, token=token) as client:
            assert [held.name for held in client.tokens()] == ["laptop", "first start"]
        server.stop()
    assert "admin's token" not in "".join(server.output), "somebody may administer it"
    with (
        LiveServer(tmp_path, scheduler=False, token=token) as server,
        Client(server.url, token=theirs) as client,
    ):
        assert client.whoami().role == "admin", "the server may be given the token that it made"


def test_an_empty_token_is_not_taken_for_none(tmp_path: Path) -> None:
    refused = run("serve", "--port", "0", data_dir=tmp_path, token=" ")
    assert refused.returncode == 2
    assert "TRAINYARD_TOKEN = '(empty)'" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_crash_does_not_tell_the_token(tmp_path: Path) -> None:
    """The application made by another program than ours, which lets the error through."""
    crashed = subprocess.run(
        [sys.executable, "-c", "from backend.app import create_app; create_app()"],
        env=environment(data_dir=tmp_path, token="too-short", port="many", cpu_devices=0),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert crashed.returncode == 1
    assert "TRAINYARD_TOKEN = '(9 characters)'" in crashed.stderr
    assert "too-short" not in crashed.stderr


def test_a_token_that_others_can_read_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert CliRunner().invoke(app, ["token", "--out", str(tmp_path / "token")]).exit_code == 0
    capsys.readouterr()
    settings = Settings(token_file=tmp_path / "token")
    warn(settings)
    assert capsys.readouterr().err == ""
    (tmp_path / "token").chmod(0o644)
    warn(settings)
    assert "chmod 600" in capsys.readouterr().err
