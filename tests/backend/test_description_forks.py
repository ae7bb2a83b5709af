"""Models are described by forks of a process that has loaded PyTorch, each of them alone, within the same limits."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.client import Client
from backend.executors import process
from backend.services import forker
from backend.services.describing import SOURCE, Allowance
from backend.services.descriptions import Descriptions, _engine, key_of
from backend.services.forks import Fork, Forks
from engine.errors import UserError
from engine.models.describe import describe_request
from engine.plan.job import SourceSpec
from engine.plan.serde import to_plain
from tests.backend.executor_attempts import until
from tests.backend.job_specs import job_spec
from tests.backend.live_server import LiveServer

DIGITS = SourceSpec(name="digits")
LINEAR = "return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))"
HOLDS = """
import os, sys, time
from pathlib import Path
from backend.services.descriptions import Descriptions, _engine, key_of
found = Descriptions(Path(sys.argv[1]))
found.load()
print(found.forks.pid, flush=True)
time.sleep(600)
"""


def forks_of(descriptions: Descriptions) -> Forks:
    assert descriptions.forks is not None
    return descriptions.forks


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Descriptions]:
    """Whose processes are forks."""
    allowed = Allowance(seconds=60, memory_bytes=2 * 2**30)
    found = Descriptions(tmp_path_factory.mktemp("cache"), allowed)
    found.load()
    yield found
    last = forks_of(found).pid
    found.close()
    assert has_ended(last)


def model(folder: Path, body: str) -> SourceSpec:
    """A builder with this body, in `mine.py` of the folder."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    (folder / "mine.py").write_text(f"import os, signal, sys, time, torch\ndef build():\n{lines}")
    return SourceSpec(entrypoint="mine:build", directory=str(folder))


def refused(descriptions: Descriptions, folder: Path, body: str) -> UserError:
    with pytest.raises(UserError) as caught:
        descriptions.describe(model(folder, body), DIGITS, "float32")
    return caught.value


def has_ended(pid: int) -> bool:
    found = process.stat(pid)
    return found is None or found.state in "ZX"


def test_each_description_is_a_fork_of_its_own_and_a_changed_file_another_one(
    loaded: Descriptions, tmp_path: Path
) -> None:
    """What one leaves in its process, another one does not find."""
    family = (
        "line = [os.getpid(), os.getppid()]\n"
        "line.append(int(open(f'/proc/{line[1]}/stat').read().rsplit(')')[1].split()[1]))\n"
        "open(__file__ + '.pids', 'a').write(' '.join(map(str, line)) + '\\n')\n"
        "assert not hasattr(torch, 'mine')\n"
        "torch.mine = True\n"
    )
    spec = model(tmp_path, family + LINEAR)
    first = loaded.describe(spec, DIGITS, "float32")
    assert loaded.describe(spec, DIGITS, "float32") is first
    model(tmp_path, family + LINEAR.replace("Linear(64, 10)", "Linear(64, 20), torch.nn.Linear(20, 10)"))
    assert [len(each.layers) for each in (first, loaded.describe(spec, DIGITS, "float32"))] == [1, 2]
    lines = [list(map(int, line.split())) for line in (tmp_path / "mine.py.pids").read_text().splitlines()]
    assert len({line[0] for line in lines}) == len(lines)
    assert {line[2] for line in lines} == {forks_of(loaded).pid}, "its watchdog is a fork"
    assert all(has_ended(pid) for line in lines for pid in line[:2])


def test_a_fork_describes_what_this_process_does(loaded: Descriptions) -> None:
    cnn = SourceSpec(name="cnn")
    asked = {"model": to_plain(cnn), "data": to_plain(DIGITS), "precision": "float32"}
    assert loaded.describe(cnn, DIGITS, "float32") == describe_request(asked)


def test_each_fork_draws_other_numbers(loaded: Descriptions, tmp_path: Path) -> None:
    """Where nobody has seeded them, as processes that are started anew do."""
    body = (
        "import random, numpy\n"
        "line = [numpy.random.random(), random.random(), torch.initial_seed(), float(torch.rand(1, device='cpu'))]\n"
        "open(__file__ + '.drawn', 'a').write(' '.join(map(str, line)) + '\\n')\n"
        "os._exit(7)"
    )
    for line in (1, 2):
        assert "exit code 7" in refused(loaded, tmp_path, f"{line}\n{body}").rule
    forks = [line.split() for line in (tmp_path / "mine.py.drawn").read_text().splitlines()]
    for first, second in zip(*forks, strict=True):
        assert first != second


def test_a_fork_does_not_read_the_sources_of_what_is_loaded_again(
    loaded: Descriptions, tmp_path: Path
) -> None:
    body = "from engine.instrumentation.class_identity import _READ\nraise ValueError(len(_READ) > 100)"
    assert "ValueError: True" in refused(loaded, tmp_path, body).rule


def test_a_fork_holds_nothing_of_the_server_s(loaded: Descriptions, tmp_path: Path) -> None:
    """But for its own pipes and the lifeline; and it has the environment and the session of its own."""
    body = (
        "links = [f'/proc/self/fd/{number}' for number in os.listdir('/proc/self/fd')]\n"
        "found = {os.readlink(link).split(':')[0] for link in links if os.path.islink(link)}\n"
        "assert 'socket' not in found, found\n"
        "assert os.getsid(0) == os.getppid(), 'its watchdog leads the session'\n"
        "assert os.environ['TRAINYARD_ATTEMPT_DIRECTORY'].startswith('/describing/')\n"
        "raise ValueError(os.environ['CUDA_VISIBLE_DEVICES'] == '')"
    )
    assert "ValueError: True" in refused(loaded, tmp_path, body).rule


@pytest.mark.parametrize(
    "body",
    [
        "return bytearray(2**40)",
        "return torch.nn.Linear(2**16, 2**16, device='cpu')",
        "return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10), Grows())",
    ],
)
def test_the_limit_of_memory_holds_for_forks(loaded: Descriptions, tmp_path: Path, body: str) -> None:
    grows = (
        "class Grows(torch.nn.Module):\n    forward = lambda self, x: torch.ones(2**32, device='cpu') and x\n"
    )
    refusal = refused(loaded, tmp_path, grows.replace("class", "global Grows\nclass") + body)
    assert refusal.rule == "needs more than 2 GiB of memory to be described"
    assert "TRAINYARD_DESCRIPTION_GIB" in refusal.remedy


def test_limits_hold_for_forks(loaded: Descriptions, tmp_path: Path) -> None:
    loaded._allowed, kept = Allowance(seconds=4, memory_bytes=2 * 2**30), loaded._allowed
    try:
        hangs = "open(__file__ + '.pid', 'w').write(str(os.getpid()))\ntime.sleep(600)"
        assert "within 4 s" in refused(loaded, tmp_path, hangs).rule
    finally:
        loaded._allowed = kept
    assert has_ended(int((tmp_path / "mine.py.pid").read_text() or 0))
    refusal = refused(loaded, tmp_path, "os.write(2, b'at last\\n')\nos._exit(7)")
    assert "ended with exit code 7: at last" in refusal.rule
    assert "was ended by SIGSEGV" in refused(loaded, tmp_path, "os.kill(os.getpid(), 11)").rule


def test_what_leaves_its_session_and_kills_those_who_look_after_it_ends_all_the_same(
    loaded: Descriptions, tmp_path: Path
) -> None:
    """It has no environment by which it could be told, and no parent: it falls to the process that forks."""
    body = (
        "keeper = os.getppid()\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    open(__file__ + '.pid', 'w').write(str(os.getpid()))\n"
        "    for number in (0, 1, 2): os.close(number)\n"
        "    time.sleep(600)\n"
        "while not os.path.exists(__file__ + '.pid') or not open(__file__ + '.pid').read(): time.sleep(0.01)\n"
        "os.kill(os.getpid(), signal.SIGSTOP) if os.fork() == 0 else None\n"
        "os.kill(keeper, signal.SIGKILL)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert "was ended by SIGKILL" in refused(loaded, tmp_path, body).rule
    assert has_ended(int((tmp_path / "mine.py.pid").read_text()))


@pytest.mark.parametrize(("said", "code"), [(b"7", 7), (b"-11", -11), (None, -signal.SIGKILL)])
def test_how_a_fork_has_ended_is_said_as_often_as_one_asks(said: bytes | None, code: int) -> None:
    """Who has forked it says it once, and nothing where it was killed."""
    way, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    outputs = [os.pipe() for _ in range(2)]
    with theirs, Fork(0, way, outputs[0][0], outputs[1][0], lambda _: None) as fork:
        with pytest.raises(subprocess.TimeoutExpired):
            fork.wait(0)
        if said is None:
            theirs.close()
        else:
            theirs.send(said)
        assert [fork.wait(0), fork.wait(0)] == [code, code]
        theirs.close()
    for _, end in outputs:
        os.close(end)


@pytest.mark.parametrize(
    "answer",
    [b'{"error": "no"}', b'{"error": {"field": "model"}}', b'{"error": [1]}', b"[" * 100_000],
    ids=lambda answer: answer[:20].decode(),
)
def test_what_is_no_answer_is_a_failure_of_the_model(
    answer: bytes, loaded: Descriptions, tmp_path: Path
) -> None:
    """A user's code can write to the pipe of the answer."""
    (tmp_path / "answer").write_bytes(answer)
    body = (
        "for number in range(3, 40):\n"
        "    try:\n"
        "        if os.readlink(f'/proc/self/fd/{number}').startswith('pipe:'):\n"
        f"            os.write(number, open({str(tmp_path / 'answer')!r}, 'rb').read())\n"
        "    except OSError: pass\n"
        "os._exit(0)"
    )
    assert "ended with exit code 0" in refused(loaded, tmp_path, body).rule


def test_one_that_is_stopped_is_replaced_before_anybody_waits_for_it(
    loaded: Descriptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The description within which it was stopped has waited for it in vain: the next one need not."""
    monkeypatch.setattr("backend.services.describing.CLEANED_S", 0.5)
    monkeypatch.setattr("backend.services.forks._END_S", 0.5)
    forks = forks_of(loaded)
    first = forks.pid
    stops = (
        f"while not open('/proc/{first}/stat').read().split(') ')[1].startswith('T'):\n"
        f"    os.kill({first}, signal.SIGSTOP)\n"
    )
    loaded.describe(model(tmp_path, stops + LINEAR), DIGITS, "float32")
    assert forks._current() is not None
    assert forks.pid != first
    until(lambda: has_ended(first), "nobody needs it")


def test_who_waits_for_a_fork_waits_no_longer_than_they_may(loaded: Descriptions, tmp_path: Path) -> None:
    loaded.describe(model(tmp_path, f"3\n{LINEAR}"), DIGITS, "float32")
    forks = forks_of(loaded)
    stopped = forks.pid
    os.kill(stopped, signal.SIGSTOP)
    with (tmp_path / "mine.py").open("rb") as given, pytest.raises(TimeoutError):
        forks.started("engine.models", 0, given.fileno(), {}, given, time.monotonic() + 0.2, None)
    assert forks.pid != stopped
    until(lambda: has_ended(stopped), "it is replaced")


def test_one_that_is_killed_or_has_old_code_is_replaced(
    loaded: Descriptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forks = forks_of(loaded)
    loaded.describe(model(tmp_path, f"4\n{LINEAR}"), DIGITS, "float32")
    first = forks.pid
    os.kill(first, signal.SIGKILL)
    until(lambda: has_ended(first), "it is dead")
    forks._current()
    loading = forks.pid
    assert loading != first
    os.kill(loading, signal.SIGKILL)
    until(lambda: has_ended(loading), "it is dead")
    loaded.describe(model(tmp_path, f"5\n{LINEAR}"), DIGITS, "float32")
    second = forks.pid
    assert second not in (first, loading)
    loaded.describe(model(tmp_path, f"6\n{LINEAR}"), DIGITS, "float32")
    assert forks.pid == second
    monkeypatch.setattr(forks, "_code", lambda: "changed")
    forks._current()
    assert forks.pid != second
    until(lambda: has_ended(second), "nobody needs it")


def test_where_none_can_be_loaded_the_log_says_so_once_until_something_has_changed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("backend", "engine"):
        (tmp_path / name).symlink_to(SOURCE / name)
    (tmp_path / "torch.py").write_text("raise SystemExit(1)")
    code = ["as it was"]
    forks = Forks(tmp_path, lambda: code[0])

    def attempts() -> int:
        pids = set()
        for _ in range(8):
            pids.add(forks.pid)
            until(lambda: has_ended(forks.pid), "it cannot load")
            forks._current()
        return len(pids)

    assert attempts() == 3
    assert forks._current() is None
    code[0] = "changed"
    assert forks._current() is not None
    assert attempts() == 3
    forks.close()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert all("Each description starts a process anew" in line for line in said)


def test_a_forker_and_a_description_are_replaced_where_another_torch_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is installed is looked for, not what somebody has loaded; nothing is loaded for that."""
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('it is only looked for')")
    (package / "version.py").write_text("__version__ = '2.9'")
    small = SourceSpec(name="mlp"), SourceSpec(name="digits")

    def seen() -> tuple[object, str]:
        return _engine(), key_of({}, *small)

    here = seen()
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.syspath_prepend(tmp_path)
    found = [seen()]
    (package / "version.py").write_text("__version__ = '2.10'")
    found.append(seen())
    (package / "__init__.py").write_text("raise AssertionError('and is another one')")
    found.append(seen())
    for each in zip(here, *found, strict=True):
        assert len(set(each)) == 4
    assert "torch" not in sys.modules


def test_it_ends_with_a_server_that_is_killed_while_it_loads(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path)], stdout=subprocess.PIPE, cwd=SOURCE
    ) as server:
        assert server.stdout is not None
        pid = int(server.stdout.readline())
        watched = os.pidfd_open(pid)
        server.kill()
    ended, _, _ = select.select([watched], [], [], 60)
    os.close(watched)
    assert ended


@pytest.mark.parametrize("ends", ["before it begins to load", "when it is ready, which nobody has read"])
def test_it_says_nothing_where_a_server_ends_that_never_asked(ends: str) -> None:
    """It is not taken for a fork, either, which describes with what it was not given."""
    control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if ends == "before it begins to load":
        control.close()
    with theirs:
        found = subprocess.Popen(
            [sys.executable, "-m", forker.__name__, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=SOURCE,
            pass_fds=[theirs.fileno()],
        )
    if ends != "before it begins to load":
        with control:
            assert select.select([control], [], [], 240)[0], "it is ready"
    _, said = found.communicate(timeout=60)
    assert (found.returncode, said) == (0, b"")


@pytest.mark.usefixtures("server_lane")
def test_a_server_has_one_unless_it_is_told_otherwise(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "data", scheduler=False, description_forks=True) as server:
        with Client(server.url) as client:
            assert client.preview(job_spec()).layers
        (found,) = forkers(server.process.pid)
        server.process.kill()
        until(lambda: has_ended(found), "it ends with a server that is killed")
    with LiveServer(tmp_path / "data", scheduler=False, description_forks=False) as server:
        assert forkers(server.process.pid) == []


def forkers(server: int) -> list[int]:
    pids = [each.pid for each in process.descendants(server)]
    return [pid for pid in pids if b"backend.services.forker" in Path(f"/proc/{pid}/cmdline").read_bytes()]
