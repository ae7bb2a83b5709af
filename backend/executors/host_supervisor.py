"""The supervisor of those parties of an attempt that live on one of several hosts:
`python -m backend.executors.host_supervisor HOLDER ADDRESS DIRECTORY`.

It ends with the process HOLDER, which somebody elsewhere asks about the attempt: nobody would hear of it any more. It
sends its host's telemetry and leaves the seal to who knows all hosts. ADDRESS is empty where all parties live here.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading

from backend.executors import files
from backend.executors.supervisor import Supervisor, main
from engine.gang.gang import Gang
from engine.launch import Launch, write_json
from engine.telemetry.uploader import UploadEnd, Uploader

SENT = "sent.json"
"""In the attempt's directory: the last sequence number of each party of this host, once the server has all of them."""


class HostSupervisor(Supervisor):
    """Of one host."""

    def _finish(self, uploader: Uploader, timeout_s: float) -> UploadEnd:
        outcome = uploader.finish(timeout_s=timeout_s, seal=False)
        if outcome.problem is None:
            last = {str(party): sequence for party, sequence in outcome.last_sequences.items()}
            files.insist(lambda: write_json(self._directory / SENT, last))
        return outcome


def end_with(holder: int) -> None:
    """End this process at once when `holder` ends; its watchdog ends the rest."""
    try:
        descriptor = os.pidfd_open(holder)
    except ProcessLookupError:
        os.kill(os.getpid(), signal.SIGKILL)
        return

    def wait() -> None:
        select.select([descriptor], [], [])
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, name="holder", daemon=True).start()


def _make_gang(launch: Launch) -> Gang:
    end_with(int(sys.argv[1]))
    return Gang(launch, sys.argv[2] or None)


if __name__ == "__main__":
    main(_make_gang, HostSupervisor)
