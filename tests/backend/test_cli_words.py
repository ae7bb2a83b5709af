"""What the terminal says to who made a mistake, waits, or presses Ctrl-C, through a real server."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from backend.cli.errors import INTERRUPTED
from backend.client import Client
from tests.backend.live_server import LiveServer, command, environment
from tests.backend.test_cli_jobs import _server, file, succeeds, trainyard

__all__ = ["_server", "file"]


def test_a_race_is_no_job_and_a_job_is_no_race(file: Path) -> None:
    race_id = json.loads(succeeds("race", str(file), "--no-wait", "--json"))["id"]
    for text in (race_id, race_id[:30]):
        refused = trainyard("cancel", text)
        assert refused.exit_code == 2
        assert "is a race, 'from a terminal', and no job" in refused.stderr
        assert f"`trainyard races {race_id} --cancel` ends it" in refused.stderr
    succeeds("races", race_id, "--cancel")
    job_id = succeeds("submit", str(file)).strip()
    assert f"`trainyard show {job_id}` shows it" in trainyard("races", job_id, "--cancel").stderr
    succeeds("cancel", job_id)
    for one, lists in (("clone", "list"), ("races", "races")):
        refused = trainyard(one, "zzzz")
        assert (refused.exit_code, f"`trainyard {lists}` lists them" in refused.stderr) == (2, True)
        assert "/api/" not in refused.stderr


def test_an_option_that_names_nothing_is_no_option_that_is_left_out(file: Path) -> None:
    for option, text in (("--rates", ","), ("--strategies", ",,,"), ("--workers", ""), ("--batches", " , ")):
        refused = trainyard("race", str(file), option, text, "--no-wait")
        assert (refused.exit_code, f"{option} = {text!r}" in refused.stderr) == (2, True)
        assert "names nothing" in refused.stderr


def test_what_is_interrupted_says_what_goes_on(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, "wait_for_race", interrupted)
    monkeypatch.setattr(Client, "wait", interrupted)
    left = trainyard("race", str(file), "--strategies", "p3")
    race_id = left.stdout.strip()
    assert left.exit_code == INTERRUPTED
    assert f"the race goes on; `trainyard races {race_id} --cancel` ends it" in left.stderr
    succeeds("races", race_id, "--cancel")
    left = trainyard("submit", str(file), "--wait")
    cloned = trainyard("clone", left.stdout.strip(), "--wait")
    for one in (left, cloned):
        assert f"the job goes on; `trainyard cancel {one.stdout.strip()}` ends it" in one.stderr
        succeeds("cancel", one.stdout.strip())
    monkeypatch.setattr(Client, "start_race", interrupted)
    assert "`trainyard races` shows whether it was started" in trainyard("race", str(file)).stderr


def test_a_race_that_waits_says_so(file: Path) -> None:
    first, second = (
        json.loads(succeeds("race", str(file), "--no-wait", "--json", "--name", name))["id"]
        for name in ("first", "b")
    )
    assert "b: waits for the race 'first'; 0 of 16 jobs ended" in succeeds("races", second)
    assert "running, waits" in succeeds("races")
    for race_id in (first, second):
        succeeds("races", race_id, "--cancel")


def test_output_that_cannot_be_written_is_said_in_a_line(live: LiveServer) -> None:
    with Path("/dev/full").open("w") as full:
        for arguments in (["list"], ["schema"], ["--help"]):
            process = subprocess.run(
                command(*arguments),
                env=environment(url=live.url),
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
            assert process.returncode == 1
            assert (
                process.stderr
                == "error: the output cannot be written: No space left on device. Write it elsewhere\n"
            )
