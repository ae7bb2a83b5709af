"""The gang: all processes of one attempt, started together, watched together, stopped together. Where the job asks
for hosts, they live in a lab that is made before they start and removed when they have ended.

Processes come from a fork server that has imported torch already, so a gang starts in a fraction of a second, and
this module (and so the supervisor) never imports torch itself.
"""

from __future__ import annotations

import json
import logging
import math
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import connection, get_context
from multiprocessing.process import BaseProcess
from typing import Any, Literal

from engine.errors import OutOfMemoryError
from engine.gang.beginning import begin
from engine.gang.kernel_kills import KernelKills
from engine.gang.losses import Losses
from engine.gang.process import ERROR_FIELDS, main
from engine.gang.restarts import Restarts
from engine.gang.standstill import LOOK_S, PEERS_S, Standstill
from engine.gang.starter import UNKNOWN, Starter, StarterEnd
from engine.lab import Lab, LabError, Link
from engine.launch import Launch
from engine.plan.cluster import Party
from engine.plan.exhausted import holders, remedy
from engine.plan.scaling import scaled_rate
from engine.regular import NotRegularError, open_regular, read_regular
from engine.state import whereabouts

FORKED = get_context("forkserver")
"""Starts processes from the fork server. A program has one, and the last to say what it imports decides: here only."""
FORKED.set_forkserver_preload(["engine.gang.preload"])
_FOLLOW_S = 2.0
_MOST_BYTES = 2**24
"""Of what a process leaves about its end."""
_LAST_BYTES = 500
"""Of a log, at most so many are quoted."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class GangEnd:
    """How a gang ended."""

    status: Literal["succeeded", "failed", "stopped"]
    reason: str
    """One line for people: who failed, its own last error, its exit code."""
    party: str | None = None
    """The process that failed first."""
    exit_code: int | None = None
    error: dict[str, Any] | None = None
    """What it wrote about its end: type, message, traceback; None where it died without a word."""
    lost: tuple[str, ...] = ()
    """A sentence about each worker that was lost, and without which the job went on; and one about each that joined
    again."""


class Gang:
    """Not safe for use by several threads."""

    def __init__(self, launch: Launch, address: str | None = None) -> None:
        """`address`: of this host, where the launch's parties live on several: its parties alone are started. A gang
        whose `GangEnd.error` is a consequence ended because of another one."""
        self._parties = launch.parties_at(address)
        self._launch = launch
        self._processes: list[tuple[Party, BaseProcess]] = []
        self._lifelines: list[connection.Connection] = []
        self._end: GangEnd | None = None
        self._lab: Lab | None = None
        self._losses = Losses(launch)
        self._restarts = Restarts(launch, self._losses)
        self._starter = Starter()
        self._kernel_kills = KernelKills()
        peers_s = PEERS_S if len(launch.parties) > 1 else 0.0
        self._standstill = Standstill(launch.job.cluster.silence_s + peers_s)

    @property
    def pids(self) -> dict[str, int]:
        """Process id of every party."""
        return {party.name: process.pid or 0 for party, process in self._processes}

    def start(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Start every process, or none: whatever prevents one stops those already started. Raises LabError where
        the job's hosts cannot be made, UserError where what it is to begin with cannot be used, and StoppedError where
        `stopped()` while that is made."""
        try:
            self._lab = _make_lab(self._launch)
            begin(self._launch, stopped)
            for party in self._parties:
                self._processes.append((party, self._spawn(party)))
        except BaseException:
            self._kill()
            raise

    def _spawn(self, party: Party, incarnation: int = 0) -> BaseProcess:
        """A process that has begun to be this party. It ends when the party has ended."""
        theirs, ours = FORKED.Pipe(duplex=False)
        process = FORKED.Process(
            target=main,
            args=(self._launch.directory, party.index, theirs, self._lab, incarnation),
            name=party.name,
            daemon=False,
        )
        process.start()
        self._starter.note()
        theirs.close()
        self._lifelines.append(ours)
        return process

    def poll(self) -> GangEnd | None:
        """The end if the gang has ended. On the first failure everybody else is stopped."""
        return self.wait(0)

    def wait(self, timeout_s: float | None) -> GangEnd | None:
        """Block for the end, at most `timeout_s` (None: as long as it takes); None if the gang still runs."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while self._end is None:
            running = [process for _, process in self._processes if process.exitcode is None]
            self._plan_restarts()
            failed = any(self._ends_the_job(party, process.exitcode) for party, process in self._processes)
            if (failed or running) and self._lab is not None and (gone := self._lab.vanished()):
                self._end = self._end_without_lab(gone, self._fail() if failed else None)
            elif failed:
                self._end = self._fail()
            elif not running:
                lost = self._losses.sentences(self._processes)
                self._end = GangEnd(
                    status="succeeded", reason="; ".join(("training finished", *lost)), lost=lost
                )
                self._close()
            elif (party := self._standstill.over(self._irreplaceable())) is not None:
                self._end = self._end_still(party)
            elif not self._restart() and not self._losses.end_given_up(self._processes):
                left = math.inf if deadline is None else max(0.0, deadline - time.monotonic())
                most = min(left, LOOK_S, self._losses.look_s, self._restarts.next_s)
                sentinels = [process.sentinel for process in running]
                if not connection.wait(sentinels, None if math.isinf(most) else most) and left <= most:
                    return None
        return self._end

    def _irreplaceable(self) -> dict[str, int]:
        """Process ids of those that run, and without which the job cannot go on."""
        return {
            party.name: process.pid or 0
            for party, process in self._processes
            if process.exitcode is None and not self._launch.may_lose(party)
        }

    def _end_still(self, name: str) -> GangEnd:
        """End the job because of a process that stands still."""
        lost = self._losses.sentences(self._processes)
        self._kill()
        error = _error(
            "TrainingError",
            f"it stands still (stopped by a signal, or held by a debugger), and the job allows"
            f" {self._launch.job.cluster.silence_s:g} s without a sign of life (cluster.silence_s: give more where"
            " workers may stop for so long)",
        )
        reason = "; ".join((f"{name} failed: {error['message']}", *lost))
        return GangEnd(status="failed", reason=reason, party=name, error=error, lost=lost)

    def _end_without_lab(self, switch: str, then: GangEnd | None) -> GangEnd:
        """End the job because of its links, which are gone. `then`: how it failed of that, where it has already."""
        lost = self._losses.sentences(self._processes)
        self._kill()
        error = _error(
            LabError.__name__,
            f"the hosts of this job lost every link while it ran: somebody else removed the network namespace"
            f" {switch}, in which their switch was. Launch the job again, and leave namespaces of that kind to the"
            " service, which removes them when their job has ended",
            *(then.error["traceback"] if then and then.error else ()),
        )
        reason = "; ".join((error["message"], *((then.reason,) if then else lost)))
        return GangEnd(status="failed", reason=reason, error=error, lost=lost)

    def _plan_restarts(self) -> None:
        """For the workers that have ended, and may be started anew."""
        if not self._launch.ready.exists():
            return
        for party, process in self._processes:
            code = process.exitcode
            if code is None or not self._launch.may_lose(party) or self._restarts.is_planned(party):
                continue
            if self._failed(party, code) and self._restarts.may_start(party, self._own_error(party)):
                self._restarts.plan(party)

    def _restart(self) -> bool:
        """Start those anew whose time has come, as long as worker 0 trains; answers whether there were any. Without the
        process that starts them all others have ended, too, and so has the job."""
        found = False
        for index, (party, process) in enumerate(self._processes):
            if not self._restarts.is_due(party) or self._processes[0][1].exitcode is not None:
                continue
            found, lost = True, self._losses.sentences(self._processes)
            end = self._starter.end(wait_s=0)
            if end is None:
                incarnation = self._restarts.begin(party, process.exitcode)
                try:
                    self._processes[index] = (party, self._spawn(party, incarnation))
                except (OSError, EOFError):
                    if (end := self._starter.end()) is None:
                        raise
                else:
                    end = self._starter.end(wait_s=0)
            if end is not None:
                self._kill()
                self._end = _without_starter(end, lost)
                break
        return found

    def _ends_the_job(self, party: Party, code: int | None) -> bool:
        """Whether a process has ended in failure, and not only been lost as a worker may be."""
        if code is None or not self._failed(party, code) or self._restarts.is_planned(party):
            return False
        if not self._launch.may_lose(party) or not self._launch.ready.exists():
            return True
        return self._own_error(party) is not None

    def _own_error(self, party: Party) -> dict[str, Any] | None:
        """What it said about its end, unless that is only that another one was lost, or gave it up."""
        error = self._read_error(party)
        return None if error is None or error["consequence"] else error

    def stop(self, grace_s: float = 3.0) -> GangEnd:
        """SIGTERM to all, SIGKILL to those that stay longer than `grace_s`. Harmless when it has ended."""
        if self._end is None:
            for _, process in self._processes:
                process.terminate()
            try:
                self._wait_all(grace_s)
            finally:  # who interrupts the wait leaves nobody behind
                self._kill()
            self._end = GangEnd(status="stopped", reason="stopped on request")
        return self._end

    def _failed(self, party: Party, code: int | None) -> bool:
        """Whether a process has ended in failure. Exit code 0 is no success for a worker that left no result:
        a library may have ended its process."""
        if code == 0 and party.rank is not None:
            return not (self._launch.summary(party.rank).exists() or self._losses.came_late(party))
        return code not in (None, 0)

    def _fail(self) -> GangEnd:
        """Find the root cause: a lost peer is a consequence, whoever died first of its own is the cause."""
        first = {party.name for party, process in self._processes if self._failed(party, process.exitcode)}
        lost = self._losses.sentences(self._processes)
        self._wait_all(_FOLLOW_S)
        ended = [(party, process.exitcode) for party, process in self._processes]
        self._kill()
        suspects = []
        for party, code in ended:
            if code is None or not self._failed(party, code):
                continue
            if self._losses.of(party) is not None and (
                self._restarts.is_planned(party) or self._own_error(party) is None
            ):
                continue  # the job went on without it
            error = self._read_error(party)
            consequence = bool(error and error["consequence"])
            when = error["time_ns"] if error else 0
            suspects.append((consequence, party.name not in first, when, party, code, error))
        *_, party, code, error = min(suspects, key=lambda s: s[:3])
        if error is None and code == UNKNOWN and (end := self._starter.end()) is not None:
            return _without_starter(end, lost)
        if error is None and code == -signal.SIGKILL and self._kernel_kills.any():
            error = self._exhausted(party)
        if error is None and code < 0:
            error = _of_collectives(words := self._last_words(party))
        if error is not None:
            what = f"{error['type']}: {error['message']}"
        elif code < 0:
            said = f", and the last that it said was: {words}" if words else ""
            what = f"killed by {signal.Signals(-code).name}{said}"
        else:
            what = "ended without a word"
        return GangEnd(
            status="failed",
            reason="; ".join((f"{party.name} failed: {what} (exit code {code})", *lost)),
            party=party.name,
            exit_code=code,
            error=error,
            lost=lost,
        )

    def _read_error(self, party: Party) -> dict[str, Any] | None:
        try:
            found = json.loads(
                read_regular(self._launch.error(party), _MOST_BYTES, root=self._launch.directory)
            )
        except FileNotFoundError:
            return None
        except (NotRegularError, ValueError, RecursionError) as error:  # a user's code may write here
            logger.warning("what %s said about its end is not read: %s", party.name, error)
            return None
        return found if isinstance(found, dict) and found.keys() >= ERROR_FIELDS else None

    def _exhausted(self, party: Party) -> dict[str, Any]:
        """The error of a process that the kernel has killed for want of memory, which cannot say it itself."""
        job, plan, model = self._launch.job, self._launch.plan, self._launch.model
        return _error(
            OutOfMemoryError.__name__,
            f"killed by SIGKILL{self._where(party)}, and the kernel has counted one more process of this cgroup that it"
            f" killed since memory was exhausted. {holders(job, plan, model, party)}. {remedy(job, plan, party)}",
        )

    def _where(self, party: Party) -> str:
        """` in forward at conv1, ...`, where a worker was at its end; empty where it has not said."""
        launch = self._launch
        try:
            content = read_regular(launch.whereabouts(party), whereabouts.BYTES, root=launch.directory)
        except OSError:
            return ""
        place = whereabouts.read(content)
        samples = launch.job.pass_samples(launch.job.cluster.workers)
        return "" if place is None else f" {place.said(launch.model, samples)}"

    def _last_words(self, party: Party) -> str:
        """The last line of its log: a library that ends its process says why there. Empty where there is none."""
        try:
            with open_regular(self._launch.log(party), root=self._launch.directory) as log:
                log.seek(max(0, log.seek(0, 2) - _LAST_BYTES))
                lines = log.read(_LAST_BYTES).decode("utf-8", "replace").split("\n")
        except (FileNotFoundError, NotRegularError):
            return ""
        said = [line.strip() for line in lines if line.strip()]
        return said[-1] if said else ""

    def _wait_all(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        for _, process in self._processes:
            process.join(max(0.0, deadline - time.monotonic()))

    def _kill(self) -> None:
        for _, process in self._processes:
            if process.exitcode is None:
                process.kill()
        for _, process in self._processes:
            process.join()
        self._close()

    def _close(self) -> None:
        for lifeline in self._lifelines:
            lifeline.close()
        self._lifelines.clear()
        if self._lab is not None:
            try:
                self._lab.close()
            except LabError:  # no reason for the job to fail; the next lab sweeps
                logger.exception("the lab was not removed")


def _without_starter(end: StarterEnd, lost: tuple[str, ...]) -> GangEnd:
    """Nobody else knows how the processes ended that it had started."""
    return GangEnd(status="failed", reason="; ".join((end.text, *lost)), exit_code=end.exit_code, lost=lost)


def _of_collectives(last_words: str) -> dict[str, Any] | None:
    """The error of a process that Gloo has ended because another worker's collective had another size; None for any
    other. Nothing in the process can say it: Gloo throws on a thread of its own."""
    if "distributed collective mismatch" not in last_words:
        return None
    message = (
        "workers called different collectives of PyTorch at the same time, and one got data of another size than it"
        " expected: forward has to call the same layers in the same order on every worker, for every batch."
        " `fsdp` and `ddp` need that. Choose another strategy, which sums what each worker has"
    )
    return _error("TrainingError", message, last_words)


def _error(kind: str, message: str, *traceback: str) -> dict[str, Any]:
    """As a process writes it down that can."""
    return {
        "type": kind,
        "message": message,
        "user": None,
        "consequence": False,
        "traceback": [*traceback],
        "time_ns": 0,
    }


def _make_lab(launch: Launch) -> Lab | None:
    """The hosts that the job asks for."""
    network = launch.job.network
    if network.hosts is None:
        return None
    rates = [rate and scaled_rate(rate, launch.job.scale) for rate in network.host_rates_bps]
    links = [Link(rate_bps=rate, latency_ns=network.latency_ns) for rate in rates]
    return Lab.create(f"{launch.attempt}-{launch.job.name}"[:40], links)
