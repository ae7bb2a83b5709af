"""Agreement: workers that hold the same parameters hold the same values.

Every worker updates its own copy with the same sums, so copies stay equal as long as the model does not write to them,
or writes the same everywhere. Each worker reports checksums to the first one, which compares: of a part of all
parameters, in turn, and of what was written to (`engine/instrumentation/writes.py`), step by step, `EVERY` steps later
at the latest; before an evaluation and before the state is saved, all of them. So a difference ends the job
`Turns.PERIOD` steps later at the latest, and is never saved.

Processors of unlike kinds may round unlike. Between these only what was written to is compared.

Cost: one short message of each worker for every step in which a part is due, or `EVERY` steps, beside the exchange.
Steps of small models are short, and have parts in few of them: there a message in each would be felt.
"""

from __future__ import annotations

import json
import platform
import threading
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.nn import Parameter

from engine.coordination.gather import Gather
from engine.instrumentation.checksum import checksum
from engine.instrumentation.gate import past_gates
from engine.instrumentation.writes import Seen, unequal
from engine.protocol.messages import Lane, Message, Payload
from engine.transport.endpoint import Sender
from engine.transport.message import Header

_UNURGENT = 2**30
EVERY = 10
"""Steps after which workers report although no part was due."""


class Agreement:
    """One worker's side; rank 0 compares."""

    kinds = (Message.CHECKSUMS,)

    def __init__(
        self,
        parameters: Mapping[str, Parameter],
        *,
        sender: Sender,
        gather: Gather,
        rank: int,
        workers: int,
        device: torch.device,
    ) -> None:
        """`parameters`: those that all `workers` hold, by name. `gather`: among these."""
        self._parameters = parameters
        self._sender = sender
        self._gather = gather
        self._rank = rank
        self._workers = workers
        self._machine = _machine(device)
        self._wrote: dict[str, dict[str, int]] = {}
        """By step: checksums of what was written to, which have not been reported yet."""
        self._lock = threading.Lock()
        """Reports come in the training thread and in the lane's."""
        self._reports: dict[int, dict[int, dict[str, Any]]] = defaultdict(dict)
        """By step and rank."""

    def report(self, step: int, seen: Seen) -> None:
        """Tell rank 0 what this worker has seen in `step`, now or in one of the next. There: raises TrainingError for a
        difference. Workers report in the same steps, since the same parts are due in all of them."""
        if seen.wrote:
            self._wrote[str(step)] = seen.wrote
        if not seen.looked_at and (step + 1) % EVERY:
            return
        said = {"machine": self._machine, "looked_at": seen.looked_at, "wrote": self._wrote}
        self._wrote = {}
        if self._rank == 0:
            self._take(step, 0, said)
            return
        header = Header(
            kind=Message.CHECKSUMS,
            lane=Lane.WORKER,
            origin=self._rank,
            step=step,
            priority=_UNURGENT,
            meta=json.dumps(said).encode(),
        )
        self._sender.send(0, header)

    def place(self, header: Header) -> None:
        """There is no payload."""

    def handle(self, header: Header, payload: Payload) -> None:
        self._take(header.step, header.origin, json.loads(header.meta))

    @past_gates
    def check(self, step: int = 0) -> None:
        """Compare everything, and what was written to since the last report. Collective; every worker raises
        TrainingError for a difference. Workers that are not all at the same `step` need not hold the same."""
        names, written = list(self._parameters), self._unreported()
        values = [checksum(self._parameters[name].detach().reshape(-1)) for name in names]
        mine = torch.stack([torch.tensor(self._machine), *(value.cpu() for value in values)])
        wrote = torch.tensor([written.get(name, 0) for name in names], dtype=torch.int64)
        here = torch.tensor([step], dtype=torch.int64)
        parts = self._gather.run([here, torch.cat([mine, wrote])])
        if any(at != step for at, _ in parts):
            return
        everyone = [found for _, found in parts]
        _compare([dict(zip(names, map(int, one[1 + len(names) :]), strict=True)) for one in everyone])
        if all(one[0] == self._machine for one in everyone):
            _compare([dict(zip(names, map(int, one[1 : 1 + len(names)]), strict=True)) for one in everyone])

    def _unreported(self) -> dict[str, int]:
        """By parameter: one number for what was written to it in which steps, which from now on counts as reported."""
        found: dict[str, int] = {}
        for step, wrote in sorted(self._wrote.items()):
            for name, value in wrote.items():
                found[name] = zlib.crc32(f"{step} {value}".encode(), found.get(name, 0))
        self._wrote = {}
        return found

    def _take(self, step: int, rank: int, said: dict[str, Any]) -> None:
        with self._lock:
            reports = self._reports[step]
            reports[rank] = said
            if len(reports) < self._workers:
                return
            del self._reports[step]
        ranks = range(self._workers)
        for number in sorted({number for one in reports.values() for number in one["wrote"]}, key=int):
            _compare([reports[rank]["wrote"].get(number, {}) for rank in ranks])
        if all(one["machine"] == said["machine"] for one in reports.values()):
            _compare([reports[rank]["looked_at"] for rank in ranks])


def _compare(checksums: Sequence[Mapping[str, int]]) -> None:
    """Those of every rank, by parameter; who has none of a parameter has not written to it."""
    for name in dict.fromkeys(name for one in checksums for name in one):
        for rank, one in enumerate(checksums):
            if one.get(name) != checksums[0].get(name):
                raise unequal(name, rank)


def _machine(device: torch.device) -> int:
    """Equal for processors that round alike."""
    name = (
        torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else torch.backends.cpu.get_cpu_capability()
    )
    return zlib.crc32(f"{platform.machine()} {name} {torch.__version__}".encode())
