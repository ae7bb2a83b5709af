"""A worker that was lost and has been started anew: it connects with worker 0 and the servers, is told from which step
on it may contribute, and goes on from there with the servers' parameters.

    worker                         server
    calls, as incarnation n   ->   (in its lane, after all that was for who was lost)
                              <-   WELCOME: from my units' point of view, from step c on
    JOIN at the latest c      ->
                              <-   each unit's answer for step c, once the mode of consistency lets it read that
    trains from step c on

It pushes only when all answers have come, so no server takes a step of it for one of who was lost. Buffers, and what is
not trained, are as the model begins with them: the same as worker 0 began with.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.errors import TrainingError
from engine.exchange.base import Exchange
from engine.exchange.server import ServerExchange
from engine.launch import write_json
from engine.plan.units import Unit
from engine.protocol.messages import Message, Payload
from engine.runtime.party import PartyBase
from engine.state.versions import Versions
from engine.telemetry import absence
from engine.transport.errors import DeadlineMissed
from engine.transport.message import Header

OVER = "training is over"
"""What worker 0 publishes when nobody contributes any more."""
UNTRAINED = "checksum of what is not trained"
"""What worker 0 publishes before training, where workers may join again."""
_LOOK_S = 0.2


@dataclass
class Rejoin:
    """One worker's, from before it connects."""

    base: PartyBase
    kinds = (Message.WELCOME,)
    _welcomes: dict[int, Header] = field(default_factory=dict)
    """By server."""
    _come: threading.Event = field(default_factory=threading.Event)

    def place(self, header: Header) -> None:
        """It has no payload."""

    def handle(self, header: Header, payload: Payload) -> None:
        self._welcomes[header.origin] = header
        if self._welcomes.keys() >= set(self.base.servers):
            self._come.set()

    def check(self, checksum: int) -> None:
        """`checksum`: of what is not trained here. Raises TrainingError where worker 0 had something else at first."""
        theirs = self.base.rendezvous.collect(UNTRAINED, [0])[0]
        if theirs != str(checksum):
            raise TrainingError(
                f"{self.base.party.name} was started anew, and the model's buffers, or its parameters that are not"
                f" trained, are not what they were in {self.base.names[0]} when training began. Make them from the"
                " job's seed, or use worker_loss go-on"
            )

    def join(self, exchanges: Mapping[int, Exchange], units: list[Unit], versions: Versions) -> int | None:
        """Connect, and wait for the parameters of the step that this worker goes on with; answers which it is. None
        where training is over: nobody waits for this worker then."""
        if not self.base.connect_again(self._over) or not self._welcomed():
            self._late()
            return None
        clock = max(header.step for header in self._welcomes.values())
        served = [each for each in dict.fromkeys(exchanges.values()) if isinstance(each, ServerExchange)]
        for exchange in served:
            exchange.join(clock)
        if any(header.part for header in self._welcomes.values()):  # some units have their last values
            for exchange in served:
                exchange.finished(clock)
            self._late()
            return None
        versions.wait(units, clock, lambda unit: exchanges[unit.index].missing(unit))
        self._say(clock)
        assert self.base.party.rank is not None
        self.base.recorder.metric(absence.joined(self.base.party.rank), self.base.incarnation, clock)
        print(f"{self.base.party.name} contributes again from step {clock} on", flush=True)
        return clock

    def _welcomed(self) -> bool:
        """Whether every server has answered, and not training is over first."""
        end = time.monotonic() + self.base.launch.deadline_s
        while not self._come.wait(_LOOK_S):
            if self.base.endpoint.failure is not None:
                raise self.base.endpoint.failure
            if self._over():
                return False
            if time.monotonic() >= end:
                missing = [self.base.names[i] for i in self.base.servers if i not in self._welcomes]
                raise DeadlineMissed(
                    f"{self.base.party.name} joining again", self.base.launch.deadline_s, missing
                )
        return True

    def _over(self) -> bool:
        return self.base.rendezvous.says(OVER, 0)

    def _late(self) -> None:
        self._say(None)
        print(f"{self.base.party.name} came back when training was over", flush=True)

    def _say(self, step: int | None) -> None:
        base = self.base
        found = {"party": base.party.name, "incarnation": base.incarnation, "step": step}
        write_json(base.launch.joined(base.party, base.incarnation), found)
