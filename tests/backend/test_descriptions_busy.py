"""How many models may be described at once, and how many may wait for that."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import httpx
import pytest

from backend.client import ApiError, Client
from backend.services.descriptions import ASKING, AT_ONCE, RETRY_AFTER_S, WAITING, Descriptions
from engine.plan.description import ModelDescription
from engine.plan.job import SourceSpec
from tests.backend.counted_models import counts, described
from tests.backend.executor_attempts import DEADLINE_S, until
from tests.backend.job_specs import job_spec
from tests.backend.live_server import DIRECT, LiveServer


@pytest.mark.usefixtures("server_lane")
def test_slow_models_do_not_take_every_thread(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import pathlib, time\n"
        "def build(number):\n"
        "    while not pathlib.Path(__file__).with_name('go').exists():\n"
        "        time.sleep(0.1)\n"
        "    raise ValueError('built at last')\n"
    )
    room, more = AT_ONCE + WAITING, 3
    model = {"entrypoint": "slow:build", "directory": str(tmp_path)}
    slow = [job_spec(model={**model, "options": {"number": number}}) for number in range(room + more)]
    with (
        LiveServer(tmp_path / "data", scheduler=False, warm_jobs=True) as server,
        Client(server.url) as client,
    ):
        client.preview(job_spec())
        with ThreadPoolExecutor(ASKING + more) as threads:
            asked = {threads.submit(client.preview, one): one for one in slow}
            ended = as_completed(asked, timeout=120)
            for _ in range(more):
                expect_busy(next(ended).exception(), f"{room} models are being described")
            # Who asks for one of the same models needs no place of its own, but a thread.
            waits = next(spec for future, spec in asked.items() if not future.done())
            same = [threads.submit(client.preview, waits) for _ in range(ASKING - room + more)]
            too_many = as_completed(same, timeout=120)
            for _ in range(more):
                expect_busy(next(too_many).exception(), f"{ASKING} requests wait for models")
            answer = httpx.post(f"{server.url}/api/v1/plans", json=waits, **DIRECT)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, str(RETRY_AFTER_S))
            assert client.health().status == "ok"
            assert client.preview(job_spec()).layers, "what is described already waits for nobody"
            (tmp_path / "go").touch()
            errors = [future.exception() for future in (*ended, *too_many)]
        assert len(errors) == ASKING
        assert all("built at last" in str(error) for error in errors)


def expect_busy(refusal: BaseException | None, why: str) -> None:
    assert isinstance(refusal, ApiError)
    assert (refusal.status, why in refusal.problem.detail) == (503, True)


def test_a_model_that_many_ask_for_at_once_takes_one_place(tmp_path: Path) -> None:
    """As where the page asks for the plans of every strategy of a new model."""
    body = (
        "go = pathlib.Path(__file__).with_name('go')\n"
        "    while not go.exists(): time.sleep(0.05)\n"
        "    from torch import nn; return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))"
    )
    model, many = SourceSpec(**counts(tmp_path, body)), AT_ONCE + WAITING + 2
    descriptions = Descriptions(tmp_path / "cache")
    begun = threading.Barrier(many + 1, timeout=DEADLINE_S)

    def describe() -> ModelDescription:
        begun.wait()
        return descriptions.describe(model, SourceSpec(name="digits"), "float32")

    with ThreadPoolExecutor(many) as threads:
        asked = [threads.submit(describe) for _ in range(many)]
        try:
            begun.wait()
            until(lambda: described(tmp_path), "the user's code runs")
        finally:  # else the threads are waited for
            (tmp_path / "go").touch()
        assert [len(one.result().layers) for one in asked] == [1] * many
    assert len(described(tmp_path)) == 1
    descriptions.close()
