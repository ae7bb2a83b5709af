"""The executor for a Ray cluster: one placement group per gang, one actor per node, and our queue above Ray's.

At the server an attempt's directory holds the handle and, at last, how it ended; all else lies on the nodes, and
`ray_files.py` reads it there. A node's actor runs what the local executor runs (`ray_node.py`). A node that does not
answer is waited for as long as Ray holds it to be alive; then it is lost, and the attempt ends with that as its cause.
"""

from __future__ import annotations

import logging
import os
import secrets as random
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from backend.executors import files, process
from backend.executors.base import NO_SECRETS, Ended, Executor, Handle, Ingest, LaunchError, Running
from backend.executors.ray_cluster import AwayError, RayCluster
from backend.executors.ray_files import RayFiles
from backend.executors.ray_gang import NAME, Host, RayGang, addresses_of, group_of
from backend.executors.ray_node import Report
from backend.executors.ray_verdict import Said, must_stop, over, running, verdict
from engine.errors import UserError
from engine.launch import REPLAY, Launch
from engine.plan.on_disk import read_by

START_S = 60.0
"""How long actors may take to start, Python's imports included."""
ASK_S = 1.0
"""How long one look waits for answers; who has not answered is asked nothing else meanwhile."""
FOLLOW_S = 5.0
"""How long the others may take to end by themselves once one has failed: their own words say more than a stop."""
logger = logging.getLogger(__name__)


class RayExecutor(Executor):
    """Processes on the nodes of a Ray cluster."""

    name = NAME

    def __init__(self, address: str | None = None) -> None:
        """`address`: of the cluster's head; None: of the cluster that this machine is a node of."""
        self._cluster = RayCluster(address)
        self._asked: dict[str, Any] = {}
        """Questions without an answer, by actor."""
        self._said: dict[str, Said] = {}
        """The last that is known, by actor."""
        self._stop_at: dict[str, float] = {}
        """When to stop those of a gang that still run, by its group."""

    def launch(self, launch: Launch, ingest: Ingest, secrets: Mapping[str, str] = NO_SECRETS) -> Handle:
        directory = launch.directory.absolute()
        gang = None
        try:
            check(launch)
            directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.mkdir(mode=0o700)
            cpus = float(launch.job.cluster.threads)
            spots = self._cluster.reserve(group_of(directory), [{"CPU": cpus}] * launch.job.cluster.workers)
            gang = RayGang.placed(directory, spots)
            gang.write()
            if not files.claim(directory, process.identity(os.getpid())):
                raise LaunchError(f"{directory} was given up by another server. Make a new attempt")
            self._start(gang, launch, addresses_of(launch, spots), ingest, secrets)
        except FileExistsError as error:
            raise LaunchError(
                f"{directory} exists: an attempt is launched once. Make a new attempt"
            ) from error
        except Exception as error:
            if gang is not None:
                self._release(gang)
            if isinstance(error, (LaunchError, UserError, OSError, AwayError)):
                raise LaunchError(f"cannot launch on the Ray cluster: {error}") from error
            raise
        return gang.handle()

    def _start(
        self,
        gang: RayGang,
        launch: Launch,
        addresses: tuple[str, ...],
        ingest: Ingest,
        secrets: Mapping[str, str],
    ) -> None:
        actors = [self._cluster.start(gang.group, host.bundle, host.actor) for host in gang.hosts]
        self._check_disks(actors, gang, launch)
        port = None
        if addresses:
            first = next(i for i, host in enumerate(gang.hosts) if host.address == addresses[0])
            port = self._cluster.answer(actors[first].free_port.remote(addresses[0]), START_S)
        told = replace(launch, addresses=addresses, port=port, checkpoints=None).to_dict()
        token = random.token_bytes(32)
        asked = [
            actor.launch.remote(
                gang.place, told, token, host.address if addresses else None, ingest, dict(secrets)
            )
            for actor, host in zip(actors, gang.hosts, strict=True)
        ]
        for one in asked:
            self._cluster.answer(one, START_S)

    def _check_disks(self, actors: list[Any], gang: RayGang, launch: Launch) -> None:
        """Raise UserError where a node does not have what the job's processes read from its disk."""
        needed = {str(one.path): one for one in read_by(launch.job)}
        if not needed:
            return
        asked = [actor.lacks.remote(list(needed)) for actor in actors]
        for host, one in zip(gang.hosts, asked, strict=True):
            for path in self._cluster.answer(one, START_S):
                raise UserError(
                    needed[path].field,
                    path,
                    f"node {host.address} has nothing there, and code and data are not sent to nodes",
                    "Put it there under the same name on every node, or on a disk that all nodes share",
                )

    def find(self, directory: Path) -> Handle | None:
        with suppress(OSError):  # whoever was about to launch it finds it taken
            directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.mkdir(mode=0o700)
        if directory.is_dir() and not files.claim(directory, None):
            gang = RayGang.read(directory) if files.claimed_by(directory) else None
            if gang is not None:
                return gang.handle()
        self._cluster.release(group_of(directory), [])
        return None

    def files(self, directory: str) -> RayFiles:
        return RayFiles(self._cluster, directory)

    def poll(self, handle: Handle) -> Running | Ended:
        gang = RayGang.of(handle)
        directory = Path(gang.directory)
        if (end := files.read_end(directory)) is not None:
            return end
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
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.write_end(directory, end)
        self._release(gang)
        return end

    def redirect(self, handle: Handle, url: str) -> None:
        self._insist(RayGang.of(handle), "redirect", url)

    def preempt(self, handle: Handle) -> None:
        self._insist(RayGang.of(handle), "preempt")

    def stop(self, handle: Handle, *, force: bool = False) -> None:
        gang = RayGang.of(handle)
        directory = Path(gang.directory)
        if files.read_end(directory) is None:
            files.request_stop(directory)
            self._tell(gang, "stop", force)

    def _look(self, gang: RayGang) -> list[Said]:
        """What is known of each node's parties, after asking those that have not ended."""
        for host in gang.hosts:
            if not over([self._said.get(host.actor)]) and host.actor not in self._asked:
                actor = self._cluster.find(host.actor)
                if actor is None:
                    self._said[host.actor] = self._cluster.lost(host.node, host.address)
                else:
                    self._asked[host.actor] = actor.poll.remote(gang.place)
        waiting = {host.actor: host for host in gang.hosts if host.actor in self._asked}
        answered = self._cluster.ready([self._asked[name] for name in waiting], ASK_S)
        for name, host in waiting.items():
            if self._asked[name] in answered:
                self._said[name] = self._heard(host, self._asked.pop(name))
        return [self._said.get(host.actor) for host in gang.hosts]

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
        first = self._cluster.find(gang.hosts[0].actor)
        if first is None:
            return False
        if gang.group not in self._asked:
            self._asked[gang.group] = first.seal.remote(gang.place, last)
        if not self._cluster.ready([self._asked[gang.group]], ASK_S):
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
        """Ask every node that runs something; waits for nobody."""
        found = [self._cluster.find(host.actor) for host in gang.hosts]
        return [getattr(actor, method).remote(*arguments) for actor in found if actor is not None]

    def _insist(self, gang: RayGang, method: str, *arguments: Any) -> None:
        """Ask every node, and wait for each. Raises OSError where one has not been told."""
        if files.read_end(Path(gang.directory)) is not None:
            return
        for asked in self._tell(gang, method, *arguments):
            try:
                self._cluster.answer(asked, ASK_S)
            except self._cluster.ray.exceptions.RayActorError:
                continue  # it has ended
            except AwayError as error:
                raise OSError(f"a node of {gang.directory} does not answer: {error}") from error

    def _release(self, gang: RayGang) -> None:
        self._cluster.release(gang.group, [host.actor for host in gang.hosts])
        self._stop_at.pop(gang.group, None)
        for name in (gang.group, *(host.actor for host in gang.hosts)):
            self._asked.pop(name, None)
            self._said.pop(name, None)


def check(launch: Launch) -> None:
    """Raise UserError for what does not run on nodes of a Ray cluster yet."""
    job = launch.job
    if not job.network.trusted:
        raise UserError(
            "network.trusted",
            job.network.trusted,
            "Ray's own connections, and ours between nodes, are not encrypted",
            "Say network: {trusted: true} where nobody else hears or changes what travels there, or run the job with"
            " the executor local",
        )
    if job.checkpoint.asked is not None:
        rule = "a checkpoint lies on one node, and the next attempt may run on others"
        raise UserError("checkpoint", job.checkpoint.asked, rule, "Leave it out, or use the executor local")
    if job.checkpoint.start is not None:
        rule = "what the job begins with is put together on the server's machine"
        raise UserError(
            "checkpoint.start.job", job.checkpoint.start.job, rule, "Leave it out, or use the executor local"
        )
    if job.cluster.worker_loss != "end":
        rule = "who was lost is written down where all parties see it"
        raise UserError("cluster.worker_loss", job.cluster.worker_loss, rule, "Use end")
    if job.network.hosts is not None:
        rule = "a lab's hosts are on one machine, and the nodes have addresses of their own"
        raise UserError("network.hosts", job.network.hosts, rule, "Leave it out")
    if strange := set(launch.devices) - {"cpu", REPLAY}:
        rule = "workers on a Ray cluster train on processors so far"
        raise UserError("cluster.device", ", ".join(sorted(strange)), rule, "Use cpu")
