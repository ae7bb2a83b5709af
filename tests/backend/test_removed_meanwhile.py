"""Who is removed in the moment in which something of theirs is stored: it comes before the removal, or not at all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import cast

import pytest
from pydantic import SecretStr
from sqlalchemy import select

from backend.access.rights import EVERYBODY, Caller
from backend.db import Database
from backend.db.models import Job, Secret, Webhook
from backend.executors.local_files import LocalFiles
from backend.schemas.people import RoleRequest, TokenRequest, UserRequest
from backend.schemas.webhooks import WebhookRequest
from backend.services.access import Access
from backend.services.errors import Conflict, Forbidden, ServiceError, Unauthorized
from backend.services.jobs import Jobs
from backend.services.people import People
from backend.services.plans import Planned, Planner
from backend.services.secrets import Secrets
from backend.services.vault import Vault
from backend.services.views import Views
from backend.services.webhooks import Webhooks
from backend.settings import Settings
from engine.errors import UserError
from engine.plan.job import JobSpec
from engine.strategies import build_plan
from tests.backend.executor_attempts import DEADLINE_S, MODEL, job

ROUNDS = 6
HOOK = WebhookRequest(name="theirs", url="https://chat.example.org/", events=["job.ended"])
SPEC = job("needs a secret", 1, secrets=("HF_TOKEN",))


class Held:
    """Plans at once what a planner plans in seconds, between whatever a test does before and after that."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], None] = lambda: None

    def plan(self, spec: JobSpec, *_: object) -> Planned:
        self.meanwhile()
        return Planned(spec=spec, description=MODEL, plan=build_plan(spec, MODEL))


class Servers:
    """The services that store something of a user's and, on a database that several servers share, another server's
    that removes users."""

    def __init__(self, database: Database, folder: Path) -> None:
        self._afar = Database(database.url) if database.shared else None
        settings, vault = (
            Settings(data_dir=folder, token=SecretStr("Gr3en-eggs_and.ham")),
            Vault(folder / "secrets.key"),
        )
        there = self._afar or database
        self.people = People(there, Access(there, settings))
        self.database = database
        self.secrets = Secrets(database, vault)
        self.hooks = Webhooks(database, vault, ())
        self.planner = Held()
        self.jobs = Jobs(
            database, cast(Planner, self.planner), Views(), LocalFiles, secrets=self.secrets.check
        )

    def let_in(self, name: str) -> Caller:
        self.people.add(UserRequest(name=name, role="member"))
        token = self.people.make(
            Caller(name=name, role="member"), TokenRequest(name="t", user=None, scope=None, days=None)
        )
        return Caller(name=name, role="member", token_id=token.id, token_name="t")

    def left(self, name: str) -> set[str]:
        """What there is of that user's."""
        with self.database.read() as session:
            return {
                kind.__tablename__
                for kind in (Job, Secret, Webhook)
                if session.scalars(select(kind).where(kind.owner == name)).first() is not None
            }

    def close(self) -> None:
        if self._afar is not None:
            self._afar.close()


@pytest.fixture
def servers(new_database: Database, tmp_path: Path) -> Iterator[Servers]:
    servers = Servers(new_database, tmp_path)
    yield servers
    servers.close()


def attempted(gate: threading.Barrier, what: Callable[[], object]) -> Exception | None:
    """Do it when all others do; why it was refused."""
    gate.wait(DEADLINE_S)
    try:
        what()
    except (ServiceError, UserError) as error:
        return error
    return None


def test_what_is_stored_while_its_owner_is_removed_comes_before_or_not_at_all(servers: Servers) -> None:
    for number in range(ROUNDS):
        name = f"ada{number}"
        caller = servers.let_in(name)
        servers.secrets.keep(caller, "HF_TOKEN", "hf_abcdefghijklmnop")
        deeds = (
            partial(servers.people.remove, name),
            partial(servers.jobs.submit, SPEC, None, caller=caller),
            partial(servers.hooks.add, caller, HOOK),
            partial(servers.secrets.keep, caller, "OTHER", "hf_ponmlkjihgfedcba"),
        )
        gate = threading.Barrier(len(deeds))
        with ThreadPoolExecutor(len(deeds)) as threads:
            stays, *others = threads.map(partial(attempted, gate), deeds)
        if stays is None:
            assert servers.left(name) == set(), others
        else:
            assert isinstance(stays, Conflict), stays
            assert others == [None] * 3, "whoever is not removed is refused nothing"
            assert servers.left(name) == {"jobs", "secrets", "webhooks"}


def test_a_job_that_is_planned_while_its_owner_is_removed_is_not_stored(servers: Servers) -> None:
    caller = servers.let_in("ada")
    servers.secrets.keep(caller, "HF_TOKEN", "hf_abcdefghijklmnop")

    def is_another() -> None:
        servers.people.remove("ada")
        servers.let_in("ada")  # somebody else, perhaps

    servers.planner.meanwhile = is_another
    with pytest.raises(Unauthorized, match="nothing was stored"):
        servers.jobs.submit(SPEC, None, caller=caller)
    with pytest.raises(Unauthorized):
        servers.hooks.add(caller, HOOK)
    with pytest.raises(Unauthorized):
        servers.secrets.keep(caller, "HF_TOKEN", "hf_abcdefghijklmnop")
    assert servers.left("ada") == set()


def test_a_job_that_is_planned_while_its_owner_loses_the_right_is_not_stored(servers: Servers) -> None:
    caller = servers.let_in("ada")

    def looks_only() -> None:
        servers.people.change("ada", RoleRequest(role="viewer").role)

    servers.planner.meanwhile = looks_only
    with pytest.raises(Forbidden, match="has changed"):
        servers.jobs.submit(job("plain", 1), None, caller=caller)
    assert servers.left("ada") == set()
    assert servers.jobs.submit(job("plain", 1), None, caller=EVERYBODY)[1], "nobody was asked there"
