"""A supervisor whose gang is made of small real processes: `python -m tests.backend.gang_of_programs DIRECTORY`.

It has the contract of `engine.gang.gang.Gang` and starts in milliseconds. The job's name says what the
processes do: see PROGRAMS.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from backend.executors.supervisor import main
from engine.gang.beginning import StoppedError
from engine.gang.gang import GangEnd
from engine.launch import Launch
from engine.plan.cluster import Party

SLEEP = "import time; time.sleep(600)"
DAEMON = (
    f"import os, subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}], start_new_session=True)"
)
STRANGER = (
    "import os, subprocess, sys; subprocess.Popen("
    f"[sys.executable, '-S', '-c', {SLEEP!r}, 'stranger', os.getcwd()], env={{}}, start_new_session=True)"
)
"""Starts a process that shows only in its arguments whose it is."""
WHEN_TOLD = "import os, time\nwhile not os.path.exists('told'): time.sleep(0.01)\nraise SystemExit(3)"
MAKES_ROOM = (
    "import os, time\nwhile not os.path.exists('preempt.json'): time.sleep(0.01)\n"
    "open('preempted.json', 'w').write('{\"step\": 4}')"
)
TELLS = "import os; print('the secret is', os.environ['HF_TOKEN'], flush=True)"
PROGRAMS = {
    "work": "",
    "goes on": "",
    "sleep": SLEEP,
    "stubborn": f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}",
    "leaves a daemon": DAEMON,
    "leaves a stranger": STRANGER,
    "starts strangers": f"{STRANGER}; {SLEEP}",
    "fails": "raise SystemExit(3)",
    "fails when told": WHEN_TOLD,
    "fails and tells its secret": f"{TELLS}; raise SystemExit(3)",
    "fails at first": "raise SystemExit(3)",
    "makes room": MAKES_ROOM,
    "leaves a daemon and fails": f"{DAEMON}; raise SystemExit(3)",
    "does not start": "",
    "begins for long": "",
    "breaks its supervisor": "",
}
LOST = "worker 1 was lost after 37 steps: killed by SIGKILL"
ERROR = {"type": "ValueError", "message": "the loss is nan at step 7"}
GRACE_S = 0.5


class Programs:
    """One process per party, all with the job's program; in jobs that fail, the last party does it alone."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._running: dict[Party, subprocess.Popen[bytes]] = {}

    def start(self, stopped: Callable[[], bool]) -> None:
        if self._launch.job.name == "begins for long":
            while not stopped():
                time.sleep(0.01)
            raise StoppedError
        if self._launch.job.name == "does not start":
            raise RuntimeError("no room for worker 1")
        for party in self._launch.parties:
            name = self._launch.job.name
            number = self._launch.directory.name
            if (name == "fails at first" and number != "1") or (name == "makes room" and number == "2"):
                name = "work"
            fails = "fails" in name
            program = SLEEP if fails and party.index == 0 else PROGRAMS[name]
            self._running[party] = subprocess.Popen([sys.executable, "-S", "-c", program])
            if fails and party.index > 0:
                self._launch.error(party).write_text(json.dumps(ERROR), encoding="utf-8")

    def wait(self, timeout_s: float) -> GangEnd | None:
        if self._launch.job.name == "breaks its supervisor":
            raise KeyError("a mistake in the gang")
        descriptors = [os.pidfd_open(p.pid) for p in self._running.values()]
        select.select(descriptors, [], [], timeout_s)
        for descriptor in descriptors:
            os.close(descriptor)
        for party in [p for p, child in self._running.items() if child.poll() is not None]:
            code = self._running.pop(party).returncode
            if code != 0:
                self.stop()
                path = self._launch.error(party)
                error = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
                what = f"{error['type']}: {error['message']}" if error else "ended without a word"
                return GangEnd(
                    status="failed",
                    reason=f"{party.name} failed: {what} (exit code {code})",
                    party=party.name,
                    exit_code=code,
                    error=error,
                )
        lost = (LOST,) if self._launch.job.name == "goes on" else ()
        return None if self._running else GangEnd(status="succeeded", reason="done", lost=lost)

    def stop(self) -> GangEnd:
        for number, patience_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, 10)):
            for child in self._running.values():
                child.send_signal(number)
            deadline = time.monotonic() + patience_s
            for child in self._running.values():
                try:
                    child.wait(max(0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    continue
        self._running.clear()
        return GangEnd(status="stopped", reason="stopped")


if __name__ == "__main__":
    main(Programs)
