"""The server's settings: environment variables with the prefix TRAINYARD_, or arguments of `trainyard
serve`."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from backend.db.engine import sqlite_url


def _default_devices() -> int:
    return max(2, os.cpu_count() or 1)


def _default_figure_processes() -> int:
    return min(4, max(1, (os.cpu_count() or 1) // 2))


def _default_description_gib() -> float:
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return max(2.0, round(machine / 4, 1))


class Settings(BaseSettings):
    """Where the server keeps its data, where it listens, and what it may use."""

    model_config = SettingsConfigDict(env_prefix="TRAINYARD_", use_attribute_docstrings=True, frozen=True)

    data_dir: Path = Field(default_factory=lambda: Path("~/.local/share/trainyard").expanduser())
    """The database, the jobs' directories, caches. One server at a time."""
    host: str = "127.0.0.1"
    """The address to listen on. Anything but loopback lets others run code on this machine: jobs are
    programs."""
    port: int = Field(default=8000, ge=0, le=65535)
    """0: any free port."""
    database_url: str | None = None
    """SQLAlchemy URL. None: a SQLite file in data_dir."""
    cpu_devices: int = Field(default_factory=_default_devices, ge=1)
    """How many workers fit on this machine's CPU at once."""
    figure_processes: int = Field(default_factory=_default_figure_processes, ge=1)
    """How many processes draw figures; they start with the first one."""
    description_seconds: float = Field(default=60.0, gt=0)
    """How long describing one model may take, the import of torch included. Jobs wait for it, and two are described at
    a time."""
    description_gib: float = Field(default_factory=_default_description_gib, gt=0)
    """How much memory each process that describes may allocate. Its default is a quarter of this machine's."""
    executor: str = "local"
    """What starts the jobs' processes: a name of `backend.executors.registry`."""
    ingest_url: str | None = None
    """Where the jobs' supervisors send telemetry, e.g. through a proxy. None: to this server's own address."""
    paused: bool = False
    """Take jobs in, but start none: for maintenance. Those that run go on, and can be cancelled."""
    scheduler: bool = True
    """False, for tests and benchmarks: nobody looks after jobs, so rows of jobs that nothing runs stay as they are."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names that requests may ask for, besides loopback's and `host`: others are refused, which stops
    pages of other sites from reaching the server through a name that resolves to it."""
    frontend_dir: Path = Path(__file__).resolve().parents[1] / "frontend" / "dist"
    """The built page."""
    notices_kept: int = Field(default=100_000, ge=1)
    """How many notices a page that was away may ask for again."""

    @property
    def url(self) -> str:
        """The database's URL."""
        return self.database_url or sqlite_url(self.data_dir / "trainyard.db")

    @property
    def address(self) -> str:
        """Where programs on this machine reach the server."""
        reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://[{reached}]:{self.port}" if ":" in reached else f"http://{reached}:{self.port}"

    @property
    def hosts(self) -> frozenset[str]:
        """Every host name that requests may ask for, without ports."""
        own = {self.host} - {"0.0.0.0", "::"}
        return frozenset({"127.0.0.1", "localhost", "::1", *own, *self.allowed_hosts})
