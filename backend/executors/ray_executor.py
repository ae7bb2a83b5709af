"""The executor for a Ray cluster: one placement group per gang, one actor per node, and our queue above Ray's.

At the server an attempt's directory holds the handle and, at last, how it ended; all else lies on the nodes, and
`ray_files.py` reads it there. A node's actor runs what the local executor runs (`ray_node.py`). A node that does not
answer is waited for as long as Ray holds it to be alive; then it is lost, and the attempt ends with that as its cause.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from backend.executors import files, process
from backend.executors.base import NO_SECRETS, Ended, Executor, Handle, Ingest, LaunchError, Running
from backend.executors.ray_cluster import AwayError, RayCluster
from backend.executors.ray_files import RayFiles
from backend.executors.ray_gang import NAME, RECORD, Host, RayGang
from backend.executors.ray_launch import check, place, start
from backend.executors.ray_node import Node, Report
from backend.executors.ray_verdict import Said, must_stop, over, running, verdict
from backend.lifecycle import Reason
from engine.errors import UserError
from engine.launch import Launch

GIVE_UP_S = 20.0
"""How long the nodes of an attempt that was not launched whole may take to end what they have started."""
AGAIN_S = 5.0
"""After how long it is tried again to end an attempt that could not be ended."""
ASK_S = 1.0
"""How long one look waits for answers; who has not answered is asked nothing else meanwhile."""
FOLLOW_S = 5.0
"""How long the others may take to end by themselves once one has failed: their own words say more than a stop."""
logger = logging.getLogger(__name__)


class RayExecutor(Executor):
    """Processes on the nodes of a Ray cluster."""

    name = NAME

    def __init__(self, address: str | None = None, node: type[Node] = Node) -> None:
        """As `RayCluster`."""
        self._cluster = RayCluster(address, node)
        self._asked: dict[str, Any] = {}
        """Questions without an answer, by actor."""
        self._said: dict[str, Said] = {}
        """The last that is known, by actor."""
        self._stop_at: dict[str, float] = {}
        """When to stop those of a gang that still run, by its group."""
        self._actors: dict[str, Any] = {}
        """Those that were found, by name."""
        self._told: dict[str, dict[tuple[Any, ...], list[Any]]] = {}
        """What nodes were told, by the attempt's group and what it was, until all have answered."""
        self._launching: dict[str, threading.Thread] = {}
        """Who launches an attempt, or gives it up, by its group."""

    def launch(self, launch: Launch, ingest: Ingest, secrets: Mapping[str, str] = NO_SECRETS) -> Handle:
        directory = launch.directory.absolute()
        gang = RayGang.planned(directory)
        try:
            check(launch)
            directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.mkdir(mode=0o700)
            gang.write()
            if not files.claim(directory, process.identity(os.getpid())):
                raise LaunchError(f"{directory} was given up by another server. Make a new attempt")
        except FileExistsError as error:
            raise LaunchError(
                f"{directory} exists: an attempt is launched once. Make a new attempt"
            ) from error
        except (UserError, OSError) as error:
            raise LaunchError(f"cannot launch on the Ray cluster: {error}") from error
        self._beside(gang, lambda: self._launch(gang, launch, ingest, secrets))
        return gang.handle()

    def _beside(self, gang: RayGang, work: Callable[[], None]) -> None:
        """Do what takes seconds on a thread of its own: until then the attempt starts, whoever asks."""
        thread = threading.Thread(target=work, name=f"launch {gang.group}", daemon=True)
        thread.start()
        self._launching[gang.group] = thread

    def _launch(self, gang: RayGang, launch: Launch, ingest: Ingest, secrets: Mapping[str, str]) -> None:
        directory = Path(gang.directory)

        def wanted() -> None:
            if files.stop_requested(directory):
                raise LaunchError("it was cancelled")

        try:
            gang = place(self._cluster, gang, launch)
            gang.write()
            wanted()
            start(self._cluster, gang, launch, ingest, secrets, wanted)
            replace(gang, launched=True).write()
        except Exception as error:
            if not isinstance(error, (LaunchError, UserError, OSError, AwayError)):
                logger.exception("%s could not be launched", directory)
                error = RuntimeError(f"{type(error).__name__}: {error}")
            self._give_up(gang, Reason.LAUNCH_FAILED, f"cannot launch on the Ray cluster: {error}")
            return
        if files.stop_requested(directory):  # by somebody who knew of no nodes yet
            try:
                self._tell(gang, "stop", False)
            except Exception:  # whatever it is: it is launched, and whoever asked for the stop insists
                logger.exception("the nodes of %s are not told to stop", directory)

    def _launches(self, gang: RayGang) -> bool:
        """Whether somebody still launches an attempt that is not launched whole, or gives it up."""
        if (thread := self._launching.get(gang.group)) is not None:
            return thread.is_alive()
        directory = Path(gang.directory)
        launches = files.claimed_by(directory)
        return RayGang.read(directory) is not None and launches is not None and process.is_alive(launches)

    def _break_off(self, planned: RayGang) -> None:
        """Give up an attempt that nobody launches any more, and one of which nothing is written down."""
        directory = Path(planned.directory)
        if files.read_end(directory) is not None:  # somebody had just written it
            return
        gang = RayGang.read(directory)
        if gang is None:
            reason = Reason.DIRECTORY_LOST
            message = f"{directory / RECORD} vanished, or cannot be read. {reason.remedy}"
            self._give_up(planned, reason, message)
        elif not gang.launched:  # else somebody had just done it
            self._give_up(gang, Reason.LAUNCH_INTERRUPTED, Reason.LAUNCH_INTERRUPTED.summary)

    def _give_up(self, gang: RayGang, reason: Reason, message: str) -> None:
        """End what runs of an attempt that was not launched whole, and write down that it has ended, but only once it
        has: what keeps it from its end is tried again, however often."""
        directory = Path(gang.directory)
        self._wait_for_cluster()
        try:
            deadline = time.monotonic() + GIVE_UP_S
            self._tell(gang, "stop", True)
            while not over(self._look(gang)) and time.monotonic() < deadline:
                time.sleep(ASK_S / 10)
        except Exception as error:  # whatever it is: who is left ends with its actor
            logger.warning(
                "not all nodes of %s have ended by themselves what they started: %r", directory, error
            )
        while True:
            self._wait_for_cluster()
            try:
                self._cluster.release(gang.group, [host.actor for host in gang.hosts])
                cancelled = files.stop_requested(directory)
                end = Ended(
                    status="cancelled" if cancelled else "failed",
                    reason=Reason.CANCELLED if cancelled else reason,
                    message=Reason.CANCELLED.summary if cancelled else message,
                    ended_unix_ns=time.time_ns(),
                )
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                files.write_end(directory, end)
            except Exception as error:  # of Ray's many kinds, or of the disk
                logger.warning("%s has not ended yet, which is tried again: %r", directory, error)
                time.sleep(AGAIN_S)
            else:
                return

    def _wait_for_cluster(self) -> None:
        """Until then nobody knows what runs."""
        while self._cluster.outage() is not None:
            time.sleep(ASK_S)

    def find(self, directory: Path) -> Handle | None:
        with suppress(OSError):  # whoever was about to launch it finds it taken
            directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.mkdir(mode=0o700)
        # Who launches an attempt takes it before it asks Ray for anything.
        if not directory.is_dir() or files.claim(directory, None) or files.claimed_by(directory) is None:
            return None
        return RayGang.planned(directory.absolute()).handle()

    def outage(self) -> str | None:
        return self._cluster.outage()

    def files(self, directory: str) -> RayFiles:
        return RayFiles(self._cluster, directory)

    def poll(self, handle: Handle) -> Running | Ended:
        gang = RayGang.of(handle)
        directory = Path(gang.directory)
        if (end := files.read_end(directory)) is not None:
            self._forget(gang)
            return end
        if not gang.launched:
            if not self._launches(gang):
                self._beside(gang, lambda: self._break_off(gang))
            return Running(phase="starting")
        settled, end = files.read_progress(directory)
        if self._cluster.outage() is not None:
            return (
                settled if end is not None else running([self._said.get(host.actor) for host in gang.hosts])
            )
        if end is None:
            said = self._look(gang)
            if must_stop(said):
                at = self._stop_at.setdefault(gang.group, time.monotonic() + FOLLOW_S)
                if time.monotonic() >= at:
                    self._tell(gang, "stop", False)
            if not over(said):
                return running(said)
            end = verdict(said, cancelled=files.stop_requested(directory))
            if (sealed := self._sealed(gang, said)) is None:
                return Running(phase="stopping", outcome=end.status, reason=end.reason, message=end.message)
            end = replace(end, sealed=sealed)
            files.write_progress(directory, end)  # with its actors goes what they know of it
        # An error is raised: the attempt has not ended while Ray keeps its actors and its room, and is asked again.
        self._cluster.release(gang.group, [host.actor for host in gang.hosts])
        files.write_end(directory, end)
        self._forget(gang)
        return end

    def redirect(self, handle: Handle, url: str) -> None:
        gang = RayGang.of(handle)
        if gang.launched:  # else it is launched with this server's address, or given up
            self._insist(gang, "redirect", url)

    def preempt(self, handle: Handle) -> None:
        gang = RayGang.of(handle)
        if not gang.launched and files.read_end(Path(gang.directory)) is None:
            raise OSError(f"{gang.directory} is being launched: its nodes cannot be told yet. Ask again")
        self._insist(gang, "preempt")

    def stop(self, handle: Handle, *, force: bool = False) -> None:
        gang = RayGang.of(handle)
        directory = Path(gang.directory)
        if files.read_end(directory) is None:
            try:
                files.request_stop(directory)
            except OSError as error:  # its directory vanished: then it is ended anyway
                logger.warning("the attempt is not told that it was cancelled: %s", error)
            if self._cluster.outage() is None:
                self._tell(gang, "stop", force)

    def _look(self, gang: RayGang) -> list[Said]:
        """What is known of each node's parties, after asking those that have not ended. One that has not answered since
        an earlier look is not waited for again: it would hold up all other attempts."""
        silent = any(host.actor in self._asked for host in gang.hosts)
        for host in gang.hosts:
            if not over([self._said.get(host.actor)]) and host.actor not in self._asked:
                actor = self._actor(host)
                if actor is None:
                    self._said[host.actor] = self._cluster.lost(host.node, host.address)
                else:
                    self._asked[host.actor] = actor.poll.remote(gang.place)
        waiting = {host.actor: host for host in gang.hosts if host.actor in self._asked}
        answered = self._cluster.ready([self._asked[name] for name in waiting], 0 if silent else ASK_S)
        for name, host in waiting.items():
            if self._asked[name] in answered:
                self._said[name] = self._heard(host, self._asked.pop(name))
        return [self._said.get(host.actor) for host in gang.hosts]

    def _actor(self, host: Host) -> Any | None:
        """The one on a node; None where it has ended, or never began. Who it is, is asked once."""
        if host.actor not in self._actors and (found := self._cluster.find(host.actor)) is not None:
            self._actors[host.actor] = found
        return self._actors.get(host.actor)

    def _heard(self, host: Host, asked: Any) -> Said:
        try:
            report = self._cluster.answer(asked, ASK_S)
        except AwayError as error:
            logger.info("node %s does not answer: %s", host.address, error)
            return self._said.get(host.actor)
        except self._cluster.ray.exceptions.RayActorError:
            return self._cluster.lost(host.node, host.address)
        assert isinstance(report, Report)
        return report

    def _sealed(self, gang: RayGang, said: list[Said]) -> bool | None:
        """Whether all telemetry has arrived and nothing can follow; None: the server has not answered yet."""
        if not all(isinstance(one, Report) and one.sent is not None for one in said):
            return False
        last = {
            party: at for one in said if isinstance(one, Report) for party, at in (one.sent or {}).items()
        }
        first = self._actor(gang.hosts[0])
        if first is None:
            return False
        again = gang.group in self._asked
        if not again:
            self._asked[gang.group] = first.seal.remote(gang.place, last)
        if not self._cluster.ready([self._asked[gang.group]], 0 if again else ASK_S):
            return None
        try:
            outcome = self._cluster.answer(self._asked.pop(gang.group), ASK_S)
        except Exception as error:  # whatever it is: the drain tries again, and the gang has ended
            logger.warning("the telemetry of %s is not sealed: %r", gang.directory, error)
            return False
        if outcome is not None and not outcome.sealed:
            logger.warning("the telemetry of %s is not sealed: %s", gang.directory, outcome.problem)
        return outcome is not None and outcome.sealed

    def _tell(self, gang: RayGang, method: str, *arguments: Any) -> list[Any]:
        """Ask every node that runs something; waits for nobody. The caller has asked whether the cluster is there."""
        found = [self._actor(host) for host in gang.hosts]
        return [getattr(actor, method).remote(*arguments) for actor in found if actor is not None]

    def _insist(self, gang: RayGang, method: str, *arguments: Any) -> None:
        """Ask every node, and wait for all of them together, though only the first time. Raises OSError where one has
        not been told."""
        if files.read_end(Path(gang.directory)) is not None:
            return
        if (outage := self._cluster.outage()) is not None:
            raise OSError(f"the nodes of {gang.directory} cannot be told: {outage}")
        told = self._told.setdefault(gang.group, {})
        key = (method, *arguments)
        again = key in told
        if not again:
            told[key] = self._tell(gang, method, *arguments)
        if len(self._cluster.ready(told[key], 0 if again else ASK_S)) < len(told[key]):
            raise OSError(f"a node of {gang.directory} does not answer. It is told once it does")
        for asked in told.pop(key):
            with suppress(self._cluster.ray.exceptions.RayActorError):  # it has ended
                try:
                    self._cluster.answer(asked, ASK_S)
                except AwayError as error:
                    raise OSError(f"a node of {gang.directory} does not answer: {error}") from error

    def _forget(self, gang: RayGang) -> None:
        """An attempt that has ended."""
        self._launching.pop(gang.group, None)
        self._stop_at.pop(gang.group, None)
        self._told.pop(gang.group, None)
        for name in (gang.group, *(host.actor for host in gang.hosts)):
            self._asked.pop(name, None)
            self._said.pop(name, None)
            self._actors.pop(name, None)
