"""What limits a job: its input, its computation, the port of a link, the processors of its machine, or waiting for
messages.

Pure: measured figures in, the limit and the sentence that carries its numbers out. The rule, in this order:

0. A worker waits for its data for INPUT of a step or more, and for messages for no longer: **input**. It computes
   nothing until they are there, and faster links would not give it anything.
1. Workers wait less than EXPOSED of a step: **compute**; a rehearsal only waits where a job would compute, so that
   where the processors are busy for PROCESSORS or more it is they (**processors**): the replay comes late.
2. While workers wait, some port is used for PORT or more of its rate at each moment: **port**. Links are the
   bottleneck, and nothing but fewer or better ordered bytes, or faster links, helps. It need not be the same port: what
   a worker waits for goes through one after another, a gradient through its own and the server's, its answer back
   through two more. Where two of them take turns, each is busy half the time, and yet links of twice the rate halve the
   wait; by the busiest port's own average that job would seem to wait for latency, which faster links do not help. How
   busy the busiest port was by itself is said beside it, so that nobody takes ports in turns for one full link.
3. The machine's processors are busy for PROCESSORS or more: **processors**. The programs cannot move or sum
   faster; on a cluster of machines this job may do better. How much of it was the job itself is said, too: where others
   took most, a quieter machine is the remedy.
4. Else **waiting**: neither is full, so that it is latency, rounds that follow one another, or a straggler.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Kind = Literal["input", "compute", "port", "processors", "waiting"]
INPUT = 0.1
"""Of a step: with less of it spent on waiting for data, these do not limit a job."""
EXPOSED = 0.1
"""Of a step: with less of it exposed, communication does not limit a job."""
PORT = 0.75
"""Of a port's rate: software that paces a link, and headers that nobody counts, keep it from 1."""
PROCESSORS = 0.85
"""Of all processors' time."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Shares from 0 to 1, over the measured steps; None where one is not known."""

    exposed: float | None
    """Of a step: exposed communication."""
    port: float | None
    """Of its rate: how busy the busiest port of each moment was while workers waited. None: no link's rate is known,
    nothing was waited for, or nobody kept events."""
    processors: float | None
    """Of all processors of the machine: how busy they were."""
    own: float | None = None
    """Of all processors: what the job's own processes took of them."""
    rehearsed: bool = False
    """Computation is waited for."""
    one_port: float | None = None
    """As `port`, of the one port that was busiest over all that time, by itself. None: not known, as `port`."""
    input: float | None = None
    """Of a step: waiting for input, of the worker that waits longest."""

    @property
    def crowded(self) -> bool:
        """Whether others than the job had more of the processors than it."""
        return self.processors is not None and self.own is not None and self.own < self.processors / 2


@dataclass(frozen=True, kw_only=True)
class Limit:
    """What limits a job."""

    kind: Kind
    sentence: str
    """`port: workers wait 58 % of the step; meanwhile the busiest port is 94 % busy; processors 41 % busy`. Where
    ports take turns, 94 % is the mean over time of whichever port is busiest then, and what one port alone has follows:
    `... meanwhile the port that was busiest at each moment is 94 % busy, but it is not always the same port: ...`."""
    crowded: bool = False
    """Others than the job had more of the machine's processors than it."""


def limit(found: Figures) -> Limit | None:
    """By the rule above; None as long as no step was measured."""
    if found.exposed is None:
        return None
    kind = _kind(found, found.exposed)
    processors = f"processors {_busy(found.processors)}"
    waits = f"workers wait {_percent(found.exposed)} of the step"
    # Of who hardly waits, ports that are not known are left out: mostly there was no wait to look at them in.
    port = _port(found) if found.port is not None or found.exposed >= EXPOSED else None
    if kind == "input":
        waits = f"workers wait {_percent(found.input)} of the step for their data"
        port = f"{_percent(found.exposed)} for messages" if found.exposed >= EXPOSED else None
    said = (_machine(found), waits, port) if kind == "processors" else (f"{kind}: {waits}", port, processors)
    return Limit(kind=kind, sentence="; ".join(filter(None, said)), crowded=found.crowded)


def mean(rounds: Iterable[Figures]) -> Figures:
    """Of the same job's rounds: the mean of what is known of each."""
    each = list(rounds)
    return Figures(
        exposed=_mean(figures.exposed for figures in each),
        port=_mean(figures.port for figures in each),
        processors=_mean(figures.processors for figures in each),
        own=_mean(figures.own for figures in each),
        rehearsed=any(figures.rehearsed for figures in each),
        one_port=_mean(figures.one_port for figures in each),
        input=_mean(figures.input for figures in each),
    )


def _kind(found: Figures, exposed: float) -> Kind:
    if input_dominates(found.input, exposed):
        return "input"
    full = found.processors is not None and found.processors >= PROCESSORS
    if exposed < EXPOSED:
        return "processors" if found.rehearsed and full else "compute"
    if found.port is not None and found.port >= PORT:
        return "port"
    return "processors" if full else "waiting"


def input_dominates(waited: float | None, exposed: float | None) -> bool:
    """Whether waiting for input, a share of the step, limits a job that waits so much for messages."""
    return waited is not None and waited >= INPUT and waited >= (exposed or 0.0)


def _port(found: Figures) -> str:
    """`meanwhile the busiest port is 94 % busy`, and how busy one alone is at most, where that is less."""
    if found.port is None:
        return "how busy ports are meanwhile is not known"
    if found.one_port is None or _percent(found.one_port) == _percent(found.port):
        return f"meanwhile the busiest port is {_percent(found.port)} busy"
    return (
        f"meanwhile the port that was busiest at each moment is {_percent(found.port)} busy, but it is not always the "
        f"same port: no single one is busier than {_percent(found.one_port)}"
    )


def _machine(found: Figures) -> str:
    """`processors of this machine: 97 % busy, 90 % by this job`."""
    own = "" if found.own is None else f", {_percent(found.own)} by this job"
    return f"processors of this machine: {_busy(found.processors)}{own}"


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _busy(share: float | None) -> str:
    return "not measured" if share is None else f"{_percent(share)} busy"


def _percent(share: float | None) -> str:
    return "not known" if share is None else f"{100 * share:.0f} %"
