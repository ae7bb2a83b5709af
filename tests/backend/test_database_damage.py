"""A database that cannot be used: one line with the reason and the remedy, at the server's start and after it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from backend.cli.main import app
from backend.db import Database
from backend.db.engine import sqlite_url
from tests.backend.ingest_server import add_attempt
from tests.backend.live_server import DIRECT, ROOT, LiveServer, command, environment
from tests.small_disk import small_disk

PAGE = 4096


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """With a database in it, all of it in one file."""
    Database(sqlite_url(file_of(tmp_path))).close()
    return tmp_path


def file_of(data_dir: Path) -> Path:
    return data_dir / "trainyard.db"


def replaced(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def change(file: Path) -> None:
        file.unlink()
        make(file)

    return change


def cut(size: int) -> Callable[[Path], None]:
    return lambda file: os.truncate(file, size)


def overwritten(first: int, last: int) -> Callable[[Path], None]:
    def change(file: Path) -> None:
        content = bytearray(file.read_bytes())
        content[first:last] = os.urandom(last - first)
        file.write_bytes(content)

    return change


def executed(*statements: str) -> Callable[[Path], None]:
    def change(file: Path) -> None:
        with sqlite3.connect(file) as connection:
            for statement in statements:
                connection.execute(statement)
        connection.close()

    return change


def others(file: Path) -> None:
    file.unlink()
    executed("CREATE TABLE jobs (id)")(file)


DAMAGES: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "another file": (lambda file: file.write_text("a note " * 999), "is no SQLite database", "TRAINYARD_DATABASE_URL"),
    "its first bytes": (cut(100), "is damaged", "copy"),
    "its first page": (cut(PAGE), "is damaged", "copy"),
    "half of it": (cut(15 * PAGE), "is damaged", "copy"),
    "random bytes": (overwritten(200, 40_000), "is damaged", "copy"),
    "a directory": (replaced(Path.mkdir), "it is a directory, and no file", "TRAINYARD_DATABASE_URL"),
    "a pipe": (replaced(os.mkfifo), "it is a pipe, a socket or a device, and no file", "TRAINYARD_DATABASE_URL"),
    "a loop of links": (replaced(lambda file: file.symlink_to(file)), "it cannot be opened", "Look at the folder"),
    "a newer schema": (
        executed("UPDATE alembic_version SET version_num = '9999'"), "is newer than this program", "Start the newer",
    ),
    "a part of its tables": (executed("DROP TABLE links"), "lacks tables of its own schema (links)", "whole copy"),
    "another program's": (others, "holds tables that another program made (jobs)", "Use another database"),
}  # fmt: skip
URLS = {
    "nonsense": "begins no URL of a database",
    "mysql://me:hidden@host/x": "is not supported",
    "sqlite://": "an in-memory SQLite",
    "://me:hidden@host": "begins no URL of a database",
}


def serve(data_dir: Path, monkeypatch: pytest.MonkeyPatch, **more: str) -> str:
    """What the terminal says where the server does not start."""
    for name, value in ({"data_dir": str(data_dir), "scheduler": "0"} | more).items():
        monkeypatch.setenv(f"TRAINYARD_{name.upper()}", value)
    said = CliRunner().invoke(app, ["serve", "--port", "0"])
    assert isinstance(said.exception, SystemExit), said.exception
    assert said.exit_code in {1, 2}
    assert said.stdout == ""
    return said.stderr


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_database_that_cannot_be_used_is_named_with_the_remedy(
    data_dir: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, rule, remedy = DAMAGES[damage]
    change(file_of(data_dir))
    (said,) = serve(data_dir, monkeypatch).splitlines()
    assert str(file_of(data_dir)) in said
    assert rule in said
    assert remedy in said


@pytest.mark.parametrize("text", ["a note", "a note " * 999])
def test_what_is_no_database_is_left_as_it_is(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is somebody's file, which a wrong URL names, directly or by a link: neither closed to others nor locked."""
    (tmp_path / "theirs").mkdir()
    theirs = tmp_path / "theirs" / "notes"
    theirs.write_text(text)
    theirs.chmod(0o644)
    link = tmp_path / "trainyard.db"
    link.symlink_to(theirs)
    for url in (f"sqlite:///{theirs}", f"sqlite:///{link}"):
        said = serve(tmp_path / "data", monkeypatch, database_url=url)
        assert said.startswith(f"error: database {theirs}: it is no SQLite database. Name another file")
        assert (theirs.read_text(), theirs.stat().st_mode & 0o777) == (text, 0o644)
        assert list(theirs.parent.iterdir()) == [theirs]


@pytest.mark.parametrize("url", URLS)
def test_a_url_that_names_no_database_is_refused_without_its_password(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = serve(tmp_path, monkeypatch, database_url=url)
    assert URLS[url] in said
    assert "remedy" in said
    assert "hidden" not in said


@pytest.mark.parametrize("name", ["cache", "cache/descriptions"])
def test_a_cache_that_is_no_folder_is_named(
    data_dir: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(data_dir / name, ignore_errors=True)
    (data_dir / name).parent.mkdir(exist_ok=True)
    (data_dir / name).touch()
    said = serve(data_dir, monkeypatch)
    assert str(data_dir / name) in said
    assert "cannot be written (File exists)" in said


@pytest.mark.parametrize("name", ["server.lock", "trainyard.db.lock"])
def test_a_lock_that_is_no_file_is_named(data_dir: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe: whoever opens it waits. A link: what stands in the file that it names stays."""
    theirs = data_dir / "theirs"
    theirs.write_text("a note")
    for trap in (os.mkfifo, lambda path: path.symlink_to(theirs)):
        (data_dir / name).unlink(missing_ok=True)
        trap(data_dir / name)
        assert f"cannot be written ({name} is no file)" in serve(data_dir, monkeypatch)
    assert theirs.read_text() == "a note"


def test_the_demo_says_the_same(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut(PAGE)(file_of(data_dir))
    monkeypatch.setenv("TRAINYARD_DATA_DIR", str(data_dir))
    said = CliRunner().invoke(app, ["demo"])
    assert isinstance(said.exception, SystemExit), said.exception
    assert "is damaged" in said.stderr


# --- what the file system permits ---


def serve_as_a_user(data_dir: Path) -> subprocess.CompletedProcess[str]:
    """`trainyard serve` by somebody for whom permissions count: root's do not."""
    root = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    return subprocess.run(
        [*root, *command("serve", "--port", "0")],
        env=environment(data_dir=data_dir, scheduler=False),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("mode", "rule"),
    [
        pytest.param(0o000, "it cannot be opened", id="none"),
        # In the suite a disk that can only be read is named so, below.
        pytest.param(0o400, "it cannot be written", id="read", marks=pytest.mark.soak),
    ],
)
@pytest.mark.usefixtures("server_lane")
def test_a_database_without_the_permission_is_named(data_dir: Path, mode: int, rule: str) -> None:
    file_of(data_dir).chmod(mode)
    said = serve_as_a_user(data_dir)
    assert said.returncode == 1
    (line,) = said.stderr.splitlines()
    assert f"database {file_of(data_dir)}: {rule}" in line
    assert "writable" in line


@pytest.mark.usefixtures("server_lane")
def test_a_disk_that_can_only_be_read_is_named(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 8) as disk:
        Database(sqlite_url(file_of(disk.path))).close()
        subprocess.run(["mount", "-o", "remount,ro", str(disk.path)], check=True)
        said = serve_as_a_user(disk.path)
    assert said.returncode == 2
    assert "Read-only file system" in said.stderr
    assert "remedy" in said.stderr
    assert "Traceback" not in said.stderr


# --- damage that shows later ---


@pytest.mark.usefixtures("server_lane")
def test_damage_that_a_request_meets_is_its_answer(data_dir: Path) -> None:
    database = Database(sqlite_url(file_of(data_dir)))
    add_attempt(database)
    database.close()
    with sqlite3.connect(file_of(data_dir)) as connection:
        ((job_id,),) = connection.execute("SELECT id FROM jobs").fetchall()
        of_the_table = "SELECT rootpage FROM sqlite_master WHERE tbl_name = 'metrics'"  # and of its indexes
        pages = [page for (page,) in connection.execute(of_the_table)]
    connection.close()
    for page in pages:
        overwritten((page - 1) * PAGE, page * PAGE)(file_of(data_dir))
    with LiveServer(data_dir, scheduler=False) as server:
        for _ in range(3):
            answer = httpx.get(f"{server.url}/api/v1/jobs/{job_id}/metrics?name=loss", **DIRECT)
            assert answer.status_code == 503, answer.text
            assert "it is damaged" in answer.json()["detail"]
        assert server.stop() == 0
    assert "Traceback" not in "".join(server.output)
