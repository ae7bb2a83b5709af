"""One round: submit, kill, start again, wait for every end, look."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from backend.chaos import victims
from backend.chaos.places import Places
from backend.chaos.script import Script, Step
from backend.chaos.service import Service
from backend.client import ENDED, ApiError, Client, ServerUnreachableError
from backend.schemas.jobs import Job

T = TypeVar("T")
ROUND_S = 120.0
"""Within this every job of a round has ended, or the round has failed."""
POLL_S = 0.1


class RoundError(AssertionError):
    """What did not hold."""


@dataclass
class Story:
    """What happened, as lines for a person."""

    began: float = field(default_factory=time.monotonic)
    lines: list[str] = field(default_factory=list)

    def tell(self, text: str) -> None:
        self.lines.append(f"{time.monotonic() - self.began:7.2f} s  {text}")


@dataclass
class Deeds:
    """What was done to whom."""

    killed: dict[Path, set[victims.Role | Literal["node"]]] = field(default_factory=lambda: defaultdict(set))
    """Attempts of which a process was killed: which ones."""
    cancelled: set[str] = field(default_factory=set)
    """Jobs whose cancel the server accepted."""
    short: set[str] = field(default_factory=set)
    """Jobs of rounds in which a node was away for a while."""
    beside: set[str] = field(default_factory=set)
    """Jobs of rounds in which the server was killed."""


class Round:
    """Carries out one script."""

    def __init__(self, script: Script, service: Service, places: Places, span_s: float, deeds: Deeds) -> None:
        """`span_s`: what an undisturbed job takes, in seconds. What is done is added to `deeds`."""
        self.story = Story()
        self.deeds = deeds
        self.jobs: dict[str, str] = {}
        """Name to id."""
        self._script = script
        self._service = service
        self._places = places
        self._span_s = span_s
        self._starting: list[threading.Timer] = []
        self._server_died = self._node_died = False

    def run(self) -> list[Job]:
        """Until every job has ended. Raises RoundError where one does not."""
        begin = time.monotonic()
        submitting = [threading.Thread(target=self._submit, args=(spec,)) for spec in self._script.jobs]
        for thread in submitting:
            thread.start()
        for step in self._script.steps:
            time.sleep(max(0.0, begin + step.at * self._span_s - time.monotonic()))
            self._do(step)
        for thread in (*submitting, *self._starting):
            thread.join(ROUND_S)
        if len(self.jobs) < len(self._script.jobs):
            raise RoundError(f"of {len(self._script.jobs)} submissions {len(self.jobs)} were answered")
        if self._server_died:
            self.deeds.beside.update(self.jobs.values())
        if self._node_died:
            self.deeds.short.update(self.jobs.values())
        return [self._end(name) for name in sorted(self.jobs)]

    # --- what happens ---

    def _submit(self, spec: dict[str, Any]) -> None:
        try:
            job = self._insist(lambda client: client.submit(spec, key=spec["name"]))
        except (ApiError, RoundError) as error:
            self.story.tell(f"submission of {spec['name']!r} failed: {error}")
            return
        self.jobs[spec["name"]] = job.id
        self.story.tell(f"submitted {spec['name']!r}: {spec['strategy']['name']}, {job.id}")

    def _do(self, step: Step) -> None:
        match step.act:
            case "server":
                self.story.tell(f"kill -9 server, away for {step.away:.2f} s")
                self._service.kill()
                self._server_died = True
                back = threading.Timer(step.away, self._service.start, kwargs={"wait": False})
                self._starting.append(back)
                back.start()
            case "cancel":
                if self.jobs:
                    self._cancel(pick(sorted(self.jobs), step.choice))
            case "node":
                self._kill_node(step)
            case role:
                self._kill(role, step.choice)

    def _kill_node(self, step: Step) -> None:
        """With all that is on it: who runs there can go on nowhere."""
        nodes = self._places.nodes
        if nodes is None or not (found := sorted(nodes.nodes)[1:]):  # the first one has the head
            return
        address = pick(found, step.choice)
        self.story.tell(f"kill -9 node {address}, away for {step.away:.2f} s")
        self._node_died = True
        nodes.kill(address)
        for attempt, place in self._places.all():
            if place.is_relative_to(nodes.own(address)) and not (place / "end.json").exists():
                self.deeds.killed[attempt].add("node")
        back = threading.Timer(step.away, nodes.again, args=(address,))
        self._starting.append(back)
        back.start()

    def _kill(self, role: victims.Role, choice: float) -> None:
        """One of those that there are; where there is none yet, the first that comes."""
        deadline = time.monotonic() + self._span_s
        while not (found := victims.of_role(self._places, role)):
            if time.monotonic() > deadline:
                self.story.tell("nobody left to kill")
                return
            time.sleep(0.01)
        victim = pick(found, choice)
        who = f"{victim.role} {victim.identity.pid} of {victim.directory.relative_to(self._places.data_dir)}"
        self.deeds.killed[victim.directory].add(role)
        self.story.tell(f"kill -9 {who}" if victims.kill(victim) else f"{who} had ended before it was killed")

    def _cancel(self, name: str) -> None:
        try:
            job = self._insist(lambda client: client.cancel(self.jobs[name]))
        except ApiError as error:
            self.story.tell(f"cancel of {name!r} refused: {error}")
            return
        self.story.tell(f"cancel of {name!r}: {job.state}")
        if job.state in {"cancelled", "stopping_cancelled"}:
            self.deeds.cancelled.add(job.id)

    # --- what is waited for ---

    def _end(self, name: str) -> Job:
        deadline = self.story.began + ROUND_S
        while (job := self._insist(lambda client: client.job(self.jobs[name]))).state not in ENDED:
            if time.monotonic() > deadline:
                raise RoundError(f"{name!r} is {job.state} ({job.message}) after {ROUND_S:g} s")
            time.sleep(POLL_S)
        attempts = ", ".join(f"{a.number}: {a.state} ({a.reason})" for a in job.attempts)
        self.story.tell(f"{name!r} is {job.state} ({job.reason}); attempts {attempts or 'none'}")
        return job

    def _insist(self, ask: Callable[[Client], T]) -> T:
        """Ask until somebody answers: the server may be away."""
        deadline = time.monotonic() + ROUND_S
        with Client(self._service.url, timeout_s=30) as client:
            while True:
                try:
                    return ask(client)
                except ServerUnreachableError:
                    if time.monotonic() > deadline:
                        raise RoundError("the server did not come back") from None
                    time.sleep(POLL_S)


def pick(items: list[T], choice: float) -> T:
    """One of them; `choice` from 0 to 1."""
    return items[min(int(choice * len(items)), len(items) - 1)]
