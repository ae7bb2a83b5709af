"""The entry of every process of a gang: logs, signals, threads, and an honest exit."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType

from engine.allocator import keep_freed_memory
from engine.lab import INTERFACE, Lab, LabError
from engine.launch import Launch, write_json
from engine.plan.cluster import Party
from engine.redaction import blotted, from_environment
from engine.regular import PRIVATE

_SWITCH_S = 0.0005
ERROR_FIELDS = {"type", "message", "consequence", "time_ns"}
"""Of what a process leaves about its end, those that its gang looks at."""
MOST_SAID = 3_000
"""Characters of a message, and of a part of its traceback, that are written down."""
LEAVE_S = 5.0
"""How long threads of a user's code may hold a process that has done its work."""
ORPHANED = 70
"""Exit status of a process whose supervisor has died."""


def main(directory: Path, index: int, lifeline: Connection, lab: Lab | None, incarnation: int = 0) -> None:
    """Run party `index` of the attempt in `directory`, on its host of the `lab` if there is one; exit 0, or 1 with
    the reason in `errors/`. `incarnation`: how often it had been started anew, after it was lost."""
    launch = Launch.read(directory)
    party = launch.parties[index]
    redirect(launch.log(party))
    if lab is not None:
        _move(launch, party, lab)
    obey(lifeline)
    take_part(launch, index, incarnation)
    _leave()


def _leave() -> None:
    """Python waits for threads before it ends; some never end."""

    def leave() -> None:
        names = [t.name for t in threading.enumerate() if not t.daemon and t is not threading.main_thread()]
        print(f"threads are still running, and end with their process: {', '.join(names)}", flush=True)
        os._exit(0)

    timer = threading.Timer(LEAVE_S, leave)
    timer.daemon = True
    timer.start()


def obey(lifeline: Connection) -> None:
    """End with the supervisor, and at its word: when the other end of `lifeline` closes, and on SIGTERM."""
    threading.Thread(target=_watch, args=(lifeline,), name="lifeline", daemon=True).start()
    signal.signal(signal.SIGTERM, _terminate)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the supervisor's to handle


def take_part(launch: Launch, index: int, incarnation: int = 0) -> None:
    """Be party `index` of the launch; where that fails, the process ends with exit code 1 and the reason in
    `errors/`."""
    try:
        _run(launch, index, incarnation)
    except _Terminated:
        raise
    except BaseException as error:  # SystemExit, too: a user's code has no business to end the process
        _explain(launch, index, error)
        sys.stdout.flush()
        os._exit(1)  # threads that still talk to lost peers must not hold the process
    sys.stdout.flush()


def _move(launch: Launch, party: Party, lab: Lab) -> None:
    """Join the party's host, before there is a second thread: a namespace belongs to a thread, not to a process."""
    host = launch.host(party)
    assert host is not None
    try:
        lab.enter(host)
    except LabError as error:
        _explain(launch, party.index, error)
        os._exit(1)
    os.environ["GLOO_SOCKET_IFNAME"] = INTERFACE  # it would look the machine's name up, and find it nowhere
    os.environ["NCCL_SOCKET_IFNAME"] = INTERFACE
    for path in ("P2P", "SHM", "IB"):  # NCCL would go around the links that the job asked for
        os.environ[f"NCCL_{path}_DISABLE"] = "1"


def _run(launch: Launch, index: int, incarnation: int) -> None:
    import torch  # noqa: PLC0415 - preloaded in the fork server, not in the supervisor

    sys.setswitchinterval(_SWITCH_S)  # the transport's threads must not wait 5 ms for the training thread
    torch.set_num_threads(launch.job.cluster.threads)
    keep_freed_memory()
    party = launch.parties[index]
    if party.rank is not None:
        from engine.runtime.worker import Worker  # noqa: PLC0415

        Worker(launch, party, incarnation).run()
    elif party.shard is not None:
        from engine.runtime.servers import Server  # noqa: PLC0415

        Server(launch, party).run()
    else:
        from engine.runtime.devices import DedicatedDevice  # noqa: PLC0415

        DedicatedDevice(launch, party).run()


def _explain(launch: Launch, index: int, error: BaseException) -> None:
    """Write down why, for the supervisor and for the log."""
    from engine.errors import TrainingError, UserError  # noqa: PLC0415
    from engine.transport.errors import PeerLost  # noqa: PLC0415
    from engine.user_code import in_training, where  # noqa: PLC0415

    traceback.print_exception(error)
    party = launch.parties[index]
    secrets = from_environment()  # what is cut first may keep a part of one, which nobody finds
    said = blotted(str(error), secrets)[:MOST_SAID]
    folders = [launch.job.model.directory, launch.job.data.directory]
    if isinstance(error, PeerLost):  # where a user's code waited for the peer is not what went wrong
        message = said
    elif isinstance(error, UserError | TrainingError):  # these say already what to do
        place = where(error, folders)
        message = f"{said} ({place})".lstrip() if place else said
    else:
        message = in_training(error, folders) or said
    write_json(
        launch.error(party),
        {
            "party": party.name,
            "type": type(error).__name__,
            "message": message,
            "user": error.to_dict() if isinstance(error, UserError) else None,
            "consequence": isinstance(error, PeerLost),
            "traceback": [
                blotted(part, secrets)[:MOST_SAID] for part in traceback.format_exception(error)[-20:]
            ],
            "time_ns": time.time_ns(),
        },
    )


def redirect(log: Path) -> None:
    """Standard output and error into the process's log."""
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE)
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.close(target)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)


def _watch(lifeline: Connection) -> None:
    """Die with the supervisor: the other end of this pipe closes when it ends, however it ends."""
    try:
        lifeline.recv()
    except EOFError:
        os._exit(ORPHANED)


class _Terminated(SystemExit):
    """The gang has stopped this process."""


def _terminate(signum: int, frame: FrameType | None) -> None:
    raise _Terminated(128 + signum)
