"""Describing a user's model in a process of its own."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import httpx
import pytest

from backend.client import ApiError, Client
from backend.services.descriptions import AT_ONCE, RETRY_AFTER_S, WAITING, Descriptions
from engine.errors import UserError
from engine.plan.description import ModelDescription
from engine.plan.job import SourceSpec
from tests.backend.executor_attempts import until
from tests.backend.job_specs import job_spec
from tests.backend.live_server import LiveServer
from tests.words import write_text

DESCRIBES = """
import sys
from pathlib import Path
from backend.services.descriptions import Descriptions
from engine.plan.job import SourceSpec
model = SourceSpec(entrypoint="mine:build", directory=sys.argv[1])
Descriptions(Path(sys.argv[1], "cache")).describe(model, SourceSpec(name="digits"), "float32")
"""


def hangs(directory: Path) -> SourceSpec:
    """A model whose code starts a process, writes its id into `pid` below `directory`, and never ends."""
    (directory / "mine.py").write_text(
        "import os, pathlib, subprocess\n"
        "def build():\n"
        "    child = subprocess.Popen(['sleep', '600'])\n"
        "    here = pathlib.Path(__file__)\n"
        "    here.with_name('part').write_text(str(child.pid))\n"
        "    os.replace(here.with_name('part'), here.with_name('pid'))\n"
        "    child.wait()\n"
    )
    return SourceSpec(entrypoint="mine:build", directory=str(directory))


def expect_end(pid: int) -> None:
    try:
        child = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended, _, _ = select.select([child], [], [], 30)
    os.close(child)
    assert ended, "what the user's code started is still there"


def test_what_a_users_code_started_ends_with_the_time_limit(tmp_path: Path) -> None:
    model = hangs(tmp_path)
    with pytest.raises(UserError, match="within 8 s"):
        Descriptions(tmp_path / "cache", timeout_s=8).describe(model, SourceSpec(name="digits"), "float32")
    expect_end(int((tmp_path / "pid").read_text()))


def test_what_a_users_code_started_ends_with_a_killed_server(tmp_path: Path) -> None:
    hangs(tmp_path)
    asks = subprocess.Popen([sys.executable, "-c", DESCRIBES, str(tmp_path)])
    until((tmp_path / "pid").exists, "the user's code runs")
    asks.kill()
    asks.wait()
    expect_end(int((tmp_path / "pid").read_text()))


@pytest.mark.usefixtures("server_lane")
def test_what_a_users_code_started_ends_with_the_server(tmp_path: Path) -> None:
    model = hangs(tmp_path)
    with LiveServer(tmp_path / "data", scheduler=False) as server, ThreadPoolExecutor(1) as threads:
        asked = {"model": {"entrypoint": model.entrypoint, "directory": model.directory}}
        threads.submit(httpx.post, f"{server.url}/api/v1/plans", json=job_spec(**asked), trust_env=False)
        until((tmp_path / "pid").exists, "the user's code runs")
        server.stop()
    expect_end(int((tmp_path / "pid").read_text()))


@pytest.mark.usefixtures("server_lane")
def test_slow_models_do_not_take_every_thread(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import pathlib, time\n"
        "def build():\n"
        "    while not pathlib.Path(__file__).with_name('go').exists():\n"
        "        time.sleep(0.1)\n"
        "    raise ValueError('built at last')\n"
    )
    slow = job_spec(model={"entrypoint": "slow:build", "directory": str(tmp_path)})
    room, more = AT_ONCE + WAITING, 3
    with LiveServer(tmp_path / "data", scheduler=False) as server, Client(server.url) as client:
        with ThreadPoolExecutor(room + more) as threads:
            asked = [threads.submit(client.preview, slow) for _ in range(room + more)]
            ended = as_completed(asked, timeout=120)
            for _ in range(more):
                refusal = next(ended).exception()
                assert isinstance(refusal, ApiError)
                assert refusal.status == 503
                assert f"{room} models are being described" in refusal.problem.detail
            answer = httpx.post(f"{server.url}/api/v1/plans", json=slow, trust_env=False)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, str(RETRY_AFTER_S))
            assert client.health().status == "ok"
            (tmp_path / "go").touch()
            errors = [future.exception() for future in ended]
        assert len(errors) == room
        assert all("built at last" in str(error) for error in errors)


def test_text_that_does_not_give_the_vocabulary_is_refused_at_its_field(tmp_path: Path) -> None:
    """Over the seam between the service, which loads no torch, and the process that trains the vocabulary."""
    write_text(tmp_path / "lines.txt", 60)
    asked = {"paths": [str(tmp_path / "lines.txt")], "steps": 5}
    descriptions = Descriptions(tmp_path / "cache")

    def describe(vocabulary: int) -> ModelDescription:
        model = SourceSpec(name="lstm-lm", options={"vocabulary": vocabulary, "layers": 1, "hidden": 4})
        data = SourceSpec(name="text", options={**asked, "vocabulary": vocabulary})
        return descriptions.describe(model, data, "float32")

    with pytest.raises(UserError, match=r"the text gives \d+ words at most") as caught:
        describe(5000)
    assert caught.value.field == "data.options.vocabulary"
    described = describe(300)
    assert described.layer("output").parameter_count == 300 * 4 + 300

    write_text(tmp_path / "lines.txt", 90)
    assert (describe(300).samples or 0) > (described.samples or 0) > 0, "the text has grown"
