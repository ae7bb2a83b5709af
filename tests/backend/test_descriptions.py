"""Describing a user's model in a process of its own."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from backend.client import ApiError, Client
from backend.services import describing
from backend.services.asker import Asker
from backend.services.describing import Allowance
from backend.services.descriptions import KEPT_BYTES, Descriptions
from backend.services.errors import Left
from engine.errors import UserError
from engine.plan.description import ModelDescription
from engine.plan.job import SourceSpec
from tests.backend import warm
from tests.backend.counted_models import counts, described
from tests.backend.executor_attempts import until
from tests.backend.job_specs import job_spec
from tests.backend.live_server import DIRECT, LiveServer
from tests.words import write_text


@pytest.fixture
def _warm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describing, "subprocess", warm.PROGRAMS)


warm_process = pytest.mark.usefixtures("_warm")
"""For tests of what a process says and leaves: it has loaded PyTorch already. Limits are tested with one
that is started anew."""
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


def refused(directory: Path, body: str | None, *, seconds: float = 60, gib: float = 2) -> UserError:
    """What is said of a builder with this body, or of the `mine.py` that is there, within these limits."""
    if body is not None:
        lines = "".join(f"    {line}\n" for line in body.splitlines())
        (directory / "mine.py").write_text(f"import os, sys, resource, torch\ndef build():\n{lines}")
    allowed = Allowance(seconds=seconds, memory_bytes=round(gib * 2**30))
    descriptions = Descriptions(directory / "cache", allowed)
    with pytest.raises(UserError) as caught:
        descriptions.describe(
            SourceSpec(entrypoint="mine:build", directory=str(directory)),
            SourceSpec(name="digits"),
            "float32",
        )
    descriptions.close()
    assert caught.value.field.split(".")[0] == "model"
    assert caught.value.value == "mine:build"
    return caught.value


def expect_end(pid: int) -> None:
    try:
        child = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended, _, _ = select.select([child], [], [], 30)
    os.close(child)
    assert ended, "what the user's code started is still there"


def test_what_a_users_code_started_ends_with_the_time_limit(tmp_path: Path) -> None:
    hangs(tmp_path)
    # A busy machine may take longer than a limit until the user's code runs at all; then a longer one decides.
    for seconds in (8, 24, 72):
        refusal = refused(tmp_path, None, seconds=seconds)
        assert f"within {seconds} s" in refusal.rule
        if (tmp_path / "pid").exists():
            break
    assert "TRAINYARD_DESCRIPTION_SECONDS" in refusal.remedy
    expect_end(int((tmp_path / "pid").read_text()))


def test_a_model_that_needs_more_memory_than_is_allowed_is_refused(tmp_path: Path) -> None:
    """Memory of other kinds: `test_description_forks.py`."""
    refusal = refused(tmp_path, "return torch.nn.Linear(2**16, 2**16, device='cpu')")
    assert refusal.rule == "needs more than 2 GiB of memory to be described"
    assert "TRAINYARD_DESCRIPTION_GIB" in refusal.remedy


def test_the_limit_of_memory_holds_for_what_a_users_code_starts(tmp_path: Path) -> None:
    program = "import resource; print(resource.getrlimit(resource.RLIMIT_DATA))"
    output = f"__import__('subprocess').check_output([sys.executable, '-c', {program!r}], text=True)"
    body = f"raise ValueError({output})"
    assert str((2**31, 2**31)) in refused(tmp_path, body).rule


@warm_process
def test_only_the_end_of_what_a_users_code_prints_is_kept(tmp_path: Path) -> None:
    body = "for _ in range(2**12):\n    os.write(2, b'x' * 2**15)\nos.write(2, b'\\nat last\\n')\nos._exit(7)"
    tracemalloc.start()
    refusal = refused(tmp_path, body)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "ended with exit code 7" in refusal.rule
    assert refusal.rule.endswith("\nat last")
    assert most < 2**24, "128 MiB were printed"


@warm_process
def test_a_process_that_is_killed_is_told_by_its_signal(tmp_path: Path) -> None:
    assert "was ended by SIGSEGV" in refused(tmp_path, "os.kill(os.getpid(), 11)").rule


@warm_process
def test_what_a_users_code_writes_is_not_the_answer_and_what_it_started_ends_with_it(tmp_path: Path) -> None:
    """It writes to standard output below Python, and starts processes in their own sessions, one of which has neither
    its environment nor a parent. Of the descriptions that are kept, the oldest give it room."""
    (tmp_path / "mine.py").write_text(
        "import os, pathlib, subprocess, torch\n"
        "def build():\n"
        "    os.write(1, b'{\"layers\": []}')\n"
        "    print('hello')\n"
        "    child = subprocess.Popen(['sh', '-c', 'echo hello; exec sleep 600'], start_new_session=True)\n"
        "    pathlib.Path(__file__).with_name('pid').write_text(str(child.pid))\n"
        "    leave = 'env -i sleep 600 & echo $! > lost'\n"
        "    subprocess.Popen(['setsid', 'sh', '-c', leave], cwd=pathlib.Path(__file__).parent).wait()\n"
        "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))\n"
    )
    descriptions = Descriptions(tmp_path / "cache")
    mine = SourceSpec(entrypoint="mine:build", directory=str(tmp_path))
    for age, (name, size) in enumerate((("new", 10), ("old", KEPT_BYTES))):
        with (tmp_path / "cache" / name).open("wb") as file:
            file.truncate(size)
        os.utime(tmp_path / "cache" / name, (1_000 - age, 1_000 - age))
    assert descriptions.describe(mine, SourceSpec(name="digits"), "float32").parameter_count == 650
    kept = [path.name for path in (tmp_path / "cache").iterdir() if path.suffix != ".json"]
    assert kept == ["new"]
    descriptions.close()
    expect_end(int((tmp_path / "pid").read_text()))
    expect_end(int((tmp_path / "lost").read_text()))


@warm_process
def test_what_outlives_its_process_does_not_hold_up_the_answer(tmp_path: Path) -> None:
    """It inherits the pipes, so their end never comes."""
    body = (
        "child = __import__('subprocess').Popen(['sleep', '600'])\n"
        "open(os.path.join(os.path.dirname(__file__), 'pid'), 'w').write(str(child.pid))\n"
        "os._exit(0)"
    )
    assert "ended with exit code 0" in refused(tmp_path, body, seconds=300).rule
    expect_end(int((tmp_path / "pid").read_text()))


@warm_process
def test_a_model_of_too_many_layers_is_refused_before_it_runs(tmp_path: Path) -> None:
    refusal = refused(tmp_path, "return torch.nn.ModuleList(torch.nn.LayerNorm(1) for _ in range(10_001))")
    assert refusal.rule == "has 10,001 layers with parameters, and the most are 10,000"


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
        threads.submit(httpx.post, f"{server.url}/api/v1/plans", json=job_spec(**asked), **DIRECT)
        until((tmp_path / "pid").exists, "the user's code runs")
        server.stop()
    expect_end(int((tmp_path / "pid").read_text()))


@warm_process
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


def wide_race(model: dict[str, str]) -> dict[str, Any]:
    members = [{"strategy": name} for name in ("p3", "parameter-server", "ring-allreduce")]
    return {"job": job_spec(model=model), "members": members, "rates": ["100Mbit", "1Gbit", "10Gbit"]}


@pytest.mark.usefixtures("server_lane")
def test_a_failure_is_not_met_again_in_every_cell_of_a_race(tmp_path: Path) -> None:
    race = wide_race(counts(tmp_path, "return missing"))
    with (
        LiveServer(tmp_path / "data", scheduler=False, warm_jobs=True) as server,
        Client(server.url) as client,
    ):
        with pytest.raises(ApiError, match="'missing' is not defined"):
            client.start_race(race)
        assert len(described(tmp_path)) == 1
        with pytest.raises(ApiError):
            client.start_race(race)
        assert len(described(tmp_path)) == 2, (
            "of another request it is described again: its cause may be gone"
        )


def leave(client: httpx.Client) -> None:
    """As a program that ends while it waits."""
    (connection,) = client._transport._pool.connections  # type: ignore[attr-defined]
    connection._connection._network_stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)


@pytest.mark.usefixtures("server_lane")
def test_a_measurement_that_nobody_waits_for_is_in_nobodys_way(tmp_path: Path) -> None:
    body = (
        "import torch\n"
        "    class Sleeps(torch.nn.Flatten):\n"
        "        def forward(self, x):\n"
        "            if not x.is_meta: time.sleep(600)\n"
        "            return super().forward(x)\n"
        "    return torch.nn.Sequential(Sleeps(), torch.nn.Linear(64, 10))"
    )
    spec = job_spec(model=counts(tmp_path, body))
    with (
        LiveServer(tmp_path / "data", scheduler=False, warm_jobs=True) as server,
        ThreadPoolExecutor(1) as threads,
    ):
        client = httpx.Client(**DIRECT)
        url = f"{server.url}/api/v1/profiles"
        asked = threads.submit(client.post, url, json=spec, timeout=300)
        until(lambda: len(described(tmp_path)) == 2, "it is described, and then measured")
        assert httpx.post(url, json=spec, **DIRECT).status_code == 503
        leave(client)
        assert asked.exception() is not None
        expect_end(described(tmp_path)[1])
        other = until(
            lambda: (
                (answer := httpx.post(url, json=job_spec(), timeout=120, **DIRECT)).status_code != 503
                and answer
            ),
            "another model is measured",
        )
        assert other.status_code == 201, other.text


@pytest.mark.usefixtures("server_lane")
@pytest.mark.parametrize("path", ["races", "jobs", "profiles"])
def test_what_is_described_or_measured_ends_when_its_client_leaves(tmp_path: Path, path: str) -> None:
    model = counts(tmp_path, "time.sleep(600)")
    body = wide_race(model) if path == "races" else job_spec(model=model)
    with (
        LiveServer(tmp_path / "data", scheduler=False, warm_jobs=True) as server,
        ThreadPoolExecutor(1) as threads,
    ):
        client = httpx.Client(**DIRECT)
        asked = threads.submit(client.post, f"{server.url}/api/v1/{path}", json=body, timeout=300)
        until(lambda: described(tmp_path), "the user's code runs")
        leave(client)
        assert asked.exception() is not None
        expect_end(described(tmp_path)[0])
        assert client.post(f"{server.url}/api/v1/plans", json=job_spec(), timeout=120).status_code == 200
        assert len(described(tmp_path)) == 1, "no other cell is planned"
        kept = client.get(f"{server.url}/api/v1/{'races' if path == 'races' else 'jobs'}").json()
        assert kept["items"] == []


@pytest.mark.usefixtures("server_lane")
def test_a_prediction_of_memory_ends_when_its_client_leaves(tmp_path: Path) -> None:
    body = (
        "import sys; from torch import nn\n"
        "    if 'engine.liveness.peak' in sys.modules: time.sleep(600)\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))"
    )
    spec = job_spec(model=counts(tmp_path, body))
    with (
        LiveServer(tmp_path / "data", scheduler=False, warm_jobs=True) as server,
        ThreadPoolExecutor(1) as threads,
    ):
        client = httpx.Client(**DIRECT)
        asked = threads.submit(client.post, f"{server.url}/api/v1/plans/memory", json=spec, timeout=300)
        until(lambda: len(described(tmp_path)) == 2, "it is described, and then predicted")
        leave(client)
        assert asked.exception() is not None
        expect_end(described(tmp_path)[1])
        other = httpx.post(f"{server.url}/api/v1/plans/memory", json=job_spec(), timeout=120, **DIRECT)
        assert other.status_code == 200, "nobody waits behind it"


@warm_process
def test_who_waits_for_the_same_model_gets_it_although_the_first_one_leaves(tmp_path: Path) -> None:
    model = SourceSpec(
        **counts(
            tmp_path,
            "time.sleep(3); from torch import nn; return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))",
        )
    )
    descriptions = Descriptions(tmp_path / "cache")

    def describe(asker: Asker | None) -> ModelDescription:
        return descriptions.describe(model, SourceSpec(name="digits"), "float32", asker)

    with closing(Asker()) as first, ThreadPoolExecutor(2) as threads:
        one = threads.submit(describe, first)
        until(lambda: described(tmp_path), "the user's code runs")
        other = threads.submit(describe, None)
        first.leave()
        assert isinstance(one.exception(), Left)
        assert len(other.result().layers) == 1
    descriptions.close()
