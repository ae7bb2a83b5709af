"""The server's settings: environment variables with the prefix TRAINYARD_, or arguments of `trainyard
serve`."""

from __future__ import annotations

import os
import socket
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from backend.access import addresses
from backend.access import token as tokens
from backend.access.kept import LEAST_DAYS
from engine.errors import UserError


def _default_devices() -> int:
    return max(2, os.cpu_count() or 1)


def _default_figure_processes() -> int:
    return min(4, max(1, (os.cpu_count() or 1) // 2))


def _default_description_gib() -> float:
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return max(2.0, round(machine / 4, 1))


class Settings(BaseSettings):
    """Where the server keeps its data, where it listens, and what it may use."""

    model_config = SettingsConfigDict(
        env_prefix="TRAINYARD_", use_attribute_docstrings=True, frozen=True, hide_input_in_errors=True
    )

    data_dir: Path = Field(default_factory=lambda: Path("~/.local/share/trainyard").expanduser())
    """The database, the jobs' directories, caches. One server at a time."""
    host: str = "127.0.0.1"
    """The address to listen on. Jobs are programs, so on anything but loopback people show who they are, unless
    `insecure`."""
    port: int = Field(default=8000, ge=0, le=65535)
    """0: any free port."""
    token: SecretStr | None = None
    """The admin's. None: of a server that asks, the admin's is made at the first start, and shown once."""
    token_file: Path | None = None
    """A file that holds the token, in place of `token`."""
    people: bool = False
    """Ask who one is also where only this machine reaches the server."""
    insecure: bool = False
    """Answer everybody who reaches the address, wherever that is."""
    database_url: str | None = None
    """SQLAlchemy URL. None: a SQLite file in data_dir."""
    cpu_devices: int = Field(default_factory=_default_devices, ge=1)
    """How many workers fit on this machine's CPU at once."""
    rehearsals: int = Field(default=1, ge=1)
    """How many rehearsals run at once. Each moves real bytes, so that two on one machine disturb each other."""
    figure_processes: int = Field(default_factory=_default_figure_processes, ge=1)
    """How many processes draw figures; they start with the first one."""
    description_seconds: float = Field(default=60.0, gt=0)
    """How long describing one model may take, the import of torch included. Jobs wait for it, and two are described at
    a time."""
    description_gib: float = Field(default_factory=_default_description_gib, gt=0)
    """How much memory each process that describes may allocate. Its default is a quarter of this machine's."""
    description_forks: bool = True
    """Keep a process that has loaded PyTorch, of which each description is a fork: it takes about 300 MB of memory, and
    makes the first preview of a model one of less than a second. False: every description loads PyTorch anew."""
    executor: str = "local"
    """What starts the jobs' processes: a name of `backend.executors.registry`."""
    ray_address: str | None = None
    """Of the executor `ray`: `HOST:PORT` of the cluster's head. None: the cluster that this machine is a node of."""
    ingest_url: str | None = None
    """Where the jobs' supervisors send telemetry, e.g. through a proxy. None: to this server's own address."""
    paused: bool = False
    """Take jobs in, but start none: for maintenance. Those that run go on, and can be cancelled."""
    scheduler: bool = True
    """False, for tests and benchmarks: nobody looks after jobs, so rows of jobs that nothing runs stay as they are."""
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    """Host names that requests may ask for, with commas between them, besides those that `hosts` knows: others are
    refused, which stops pages of other sites from reaching the server through a name that resolves to it."""
    proxies: Annotated[tuple[str, ...], NoDecode] = ()
    """Addresses or networks, with commas between them, of the proxies whose X-Forwarded-For and X-Forwarded-Proto are
    believed, as `127.0.0.1`. Empty: nobody's, because whoever may invent its own address may guess without an end."""
    connections: int = Field(default=4_000, ge=20)
    """How many connections may be open at once; more wait until one ends, and those that send no
    request end first. Where the limit of open files leaves room for
    fewer (`ulimit -n`), the server says so when they are taken."""
    request_seconds: float = Field(default=20.0, gt=0)
    """How long the head of a request may take to come; a connection that sends none ends then, too."""
    request_bytes_per_second: int = Field(default=1_000, ge=1)
    """How fast the body of a request has to come, on average over `request_seconds`."""
    answer_seconds: float = Field(default=60.0, gt=0)
    """How long a client may take nothing of an answer or a live feed that is ready for it."""
    token_requests_per_second: float = Field(default=100.0, gt=0)
    """How many requests may be made with one token, on average over ten seconds; where people are not asked, as many as
    anybody likes."""
    frontend_dir: Path = Path(__file__).resolve().parents[1] / "frontend" / "dist"
    """The built page."""
    telemetry_days: float | None = Field(default=None, gt=0)
    """After so many days what an attempt recorded by layer and by link goes, and its raw batches; steps, metrics and
    the job's figures stay. None: nothing goes by itself."""
    audit_days: float = Field(default=365.0, ge=LEAST_DAYS, le=36_500)
    """After so many days an entry of the audit log goes."""
    webhook_networks: Annotated[tuple[str, ...], NoDecode] = ()
    """Addresses or networks, with commas between them, that webhooks may reach though they are not public, as
    `10.1.0.0/16`. Whoever may make webhooks then reaches them through this server."""
    secrets_key_file: Path | None = None
    """The file with the key by which secrets and the addresses of webhooks are encrypted; it is made where it is not
    there. None: `secrets.key` in data_dir. Servers that share a database need one key."""
    notices_kept: int = Field(default=100_000, ge=1)
    """How many notices a page that was away may ask for again."""

    @model_validator(mode="before")
    @classmethod
    def _read_token(cls, given: Any) -> Any:
        file = given.get("token_file")
        tokens.only_one(given.get("token"), file)
        return given if file is None else {**given, "token": tokens.read(Path(file))}

    @field_validator("token")
    @classmethod
    def _check_token(cls, token: SecretStr | None) -> SecretStr | None:
        return None if token is None else SecretStr(tokens.checked(token.get_secret_value()))

    @field_validator("allowed_hosts", "proxies", "webhook_networks", mode="before")
    @classmethod
    def _split(cls, given: Any) -> Any:
        """`a,b` as people write it, or a list in JSON."""
        if not isinstance(given, str):
            return given
        return tuple(name for part in given.split(",") if (name := part.strip(' []"')))

    @field_validator("proxies", "webhook_networks")
    @classmethod
    def _check_networks(cls, given: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        """A network by its first address, whichever of it was written (`10.0.0.1/8`): uvicorn knows no other."""
        found = []
        for proxy in given:
            try:
                network = ip_network(proxy, strict=False)
            except ValueError:
                rule = "is neither an address nor a network"
                raise UserError(
                    str(info.field_name), proxy, rule, "Examples: 127.0.0.1, 10.0.0.0/8"
                ) from None
            found.append(str(network) if "/" in proxy else proxy)
        return tuple(found)

    @model_validator(mode="after")
    def _one_of_both(self) -> Settings:
        for field, given in (("token", self.token is not None), ("people", self.people)):
            if self.insecure and given:
                rule = f"{field} is set, too: everybody would be asked who they are"
                raise UserError(
                    "insecure", True, rule, f"Leave --insecure, or TRAINYARD_{field.upper()}, out"
                )
        return self

    @property
    def url(self) -> str:
        """The database's URL."""
        from backend.db.engine import sqlite_url  # noqa: PLC0415 - commands that ask a server do without databases

        return self.database_url or sqlite_url(self.data_dir / "trainyard.db")

    @property
    def address(self) -> str:
        """Where programs on this machine reach the server."""
        reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://[{reached}]:{self.port}" if ":" in reached else f"http://{reached}:{self.port}"

    @property
    def own_token(self) -> str | None:
        """The token as it is sent."""
        return None if self.token is None else self.token.get_secret_value()

    @property
    def asks(self) -> bool:
        """Whether people have to show who they are: wherever other machines reach the server, and where it is wanted;
        not where it is `insecure`."""
        return not self.insecure and (
            self.people or self.token is not None or not addresses.only_loopback(self.host)
        )

    @property
    def for_others(self) -> bool:
        """Whether other machines are meant to reach the server."""
        return self.insecure or self.asks

    @property
    def reached(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """What webhooks may reach though it is not public."""
        return tuple(ip_network(network) for network in self.webhook_networks)

    @property
    def key_file(self) -> Path:
        """Where the key of secrets is."""
        return self.secrets_key_file or self.data_dir / "secrets.key"

    @property
    def hosts(self) -> frozenset[str]:
        """Every host name that requests may ask for, without ports and in lower case: loopback's, `host`, this
        machine's where others are meant to reach it, and `allowed_hosts`."""
        own = {self.host} - {"0.0.0.0", "::"}
        if self.for_others:
            own |= {(name := socket.gethostname()), name.partition(".")[0]}
        names = {"127.0.0.1", "localhost", "::1", *own, *self.allowed_hosts}
        return frozenset(name.lower() for name in names)
