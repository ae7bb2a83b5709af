"""Requests made from the API's own document, right ones and wrong ones, at a real server: nothing breaks it, and it
answers only what the document says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.generation.case import Case
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from sqlalchemy.orm import Session

from backend.app import create_app
from backend.db.models import Job
from backend.settings import Settings
from tests.backend.api_document import DOCUMENT
from tests.backend.job_specs import submit
from tests.backend.live_server import LiveServer
from tests.backend.recorded_run import record_run
from tests.databases import url_of

EXAMPLES = (pytest.param(2, id="few"), pytest.param(60, id="many", marks=pytest.mark.soak))
"""Of each operation, right and wrong ones each."""
TIMEOUT_S = 60
ENDLESS = {"follow_notices"}
"""Answers that never end; tests/backend/test_api_notices.py reads them."""
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
OPERATIONS = sorted(
    (
        operation["operationId"]
        for operations in DOCUMENT["paths"].values()
        for operation in operations.values()
        if operation["operationId"] not in ENDLESS
    ),
    key=lambda operation: (
        operation == "delete_job",
        operation,
    ),  # it takes from the others what they ask about
)
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def known(
    server_lane: None, tmp_path_factory: pytest.TempPathFactory, descriptions: Path
) -> Iterator[tuple[LiveServer, str]]:
    """A server, and the id of a job whose events it has."""
    data_dir = tmp_path_factory.mktemp("fuzzed")
    (data_dir / "cache").symlink_to(descriptions)
    settings = Settings(data_dir=data_dir, database_url=url_of(data_dir), cpu_devices=4, scheduler=False)
    with TestClient(create_app(settings), base_url="http://127.0.0.1") as api:
        planned = submit(api, "planned")["id"]
        database = api.app.state.context.database  # type: ignore[attr-defined]
        job_id = record_run(database, "p3", priority=True, steps=8).job_id

        def copy_plan(session: Session) -> None:
            recorded, source = (session.get_one(Job, id_) for id_ in (job_id, planned))
            recorded.spec, recorded.plan, recorded.description = source.spec, source.plan, source.description

        database.writer.run(copy_plan)
    with LiveServer(data_dir, scheduler=False, warm_jobs=True) as server:
        yield server, job_id


@pytest.mark.parametrize("mode", schemathesis.GenerationMode)
@pytest.mark.parametrize("operation_id", OPERATIONS)
@pytest.mark.parametrize("examples", EXAMPLES)
def test_every_answer_is_one_that_the_document_names(
    known: tuple[LiveServer, str], operation_id: str, mode: schemathesis.GenerationMode, examples: int
) -> None:
    server, job_id = known
    operation = SCHEMA.find_operation_by_id(operation_id)

    with requests.Session() as session:
        session.trust_env = False

        @settings(
            max_examples=examples,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode), there=st.booleans())
        def ask(case: Case, there: bool) -> None:
            if there and "job_id" in case.path_parameters:
                case.path_parameters["job_id"] = job_id
            chosen = "fields" in (case.query or {})  # then only a part of what the document says is answered
            checks = [check for check in CHECKS if not (chosen and check is response_schema_conformance)]
            case.call_and_validate(server.url, session, checks=checks, timeout=TIMEOUT_S)

        try:
            ask()
        except Unsatisfiable:  # nothing in its requests can be wrong: any text may be an id
            assert mode is schemathesis.GenerationMode.NEGATIVE
    assert server.process.poll() is None
