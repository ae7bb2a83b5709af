"""What figures say about a job and its links besides the measurements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, get_args

from sqlalchemy import select
from sqlalchemy.orm import Session, object_session

from backend.db.models import Attempt, Job
from backend.figures import resolved, shared_units
from backend.figures.shared_units import SharedUnits
from backend.lifecycle import ENDED
from engine.errors import UserError
from engine.plan.description import layer_title
from engine.plan.faults import FaultsSpec
from engine.plan.fingerprint import Fingerprint, fingerprint
from engine.plan.job import ClusterSpec, StrategySpec, TrainingSpec
from engine.plan.rehearsal import RehearsalSpec
from engine.plan.serde import from_plain
from engine.telemetry.definitions import LinkRate, RateSource
from engine.telemetry.events import NONE

T = TypeVar("T")
MOST_NAMED = 8
"""Layers of a bucket that are told one by one."""


def together(name: Callable[[int], str], first: int, last: int) -> str:
    """What layers that are drawn, or counted, as one are called: `conv1 to conv4`; of one layer its `name`."""
    return name(first) if first == last else f"{name(first)} to {name(last)}"


def bucket(name: Callable[[int], str], layers: Sequence[int]) -> str:
    """What layers that come as one, in forward order, are called: `the bucket of conv1 to conv4`, or `of conv1 and 2
    more` where others lie between them; one layer has its `name`."""
    first, *others = layers
    if not others:
        return name(first)
    if others[-1] - first == len(others):
        return f"the bucket of {together(name, first, others[-1])}"
    return f"the bucket of {name(first)} and {len(others)} more"


@dataclass(frozen=True, kw_only=True)
class LinkFacts:
    """A link that a party reported on."""

    party: int
    interface: str
    host: str
    rate_bps: int | None
    """Per direction; None where it is not known."""
    rate_source: str
    shared: bool
    """What is not the job's uses it, too."""
    by_size: bool
    """Bytes of collectives on it are told apart by the layers' sizes in what was sent."""

    @property
    def rate(self) -> LinkRate | None:
        """None where it is not known."""
        source = next((one for one in get_args(RateSource) if one == self.rate_source), None)
        return LinkRate(rate_bps=self.rate_bps, source=source) if self.rate_bps and source else None

    @property
    def key(self) -> str:
        """What addresses and requests call it."""
        return f"{self.party}:{self.interface}"


@dataclass(frozen=True, kw_only=True)
class JobFacts:
    """What figures say about a job besides its measurements."""

    id: str
    name: str
    strategy: str
    model: str
    data: str
    workers: int
    global_batch: int
    threads: int
    device: str
    """Kind of device; a rehearsal's is its label, so that it compares with nothing but its like."""
    device_models: tuple[str, ...]
    """Every model of its devices once; empty where it is not known, or stands for nothing, as in a rehearsal."""
    rehearsed: str | None
    """The label of a rehearsal; None for a job that trains."""
    slowed: str | None
    """Which workers are slowed on purpose, and by how much; None: none is."""
    scale: float
    """What a rehearsal divides sizes and rates by."""
    precision: str
    rate: str | None
    """Limit of the network and what keeps it, in one way of writing: equal texts are equal networks."""
    settings: tuple[tuple[str, str], ...]
    """What else changes the time of a step, by name."""
    hosts: int | None
    """Of the lab whose links keep the limit; None: our transport keeps it, in software."""
    baseline_id: str | None
    started_unix_ns: int | None
    ended_unix_ns: int | None
    describe: Callable[[], dict[str, Any] | None]
    """Reads the model's description, which is large: a row of a list does without."""
    read_units: Callable[[], SharedUnits]
    """Reads the plan, which is large, too."""
    parties: tuple[str, ...]
    """Names by party number."""
    attempt: int | None
    """The id of the attempt that is shown; None while the job waits."""
    attempt_number: int | None
    ended: bool
    """Nothing of it can change any longer, but for telemetry that is under way."""
    over: bool
    """The attempt that is shown records nothing more, whatever may follow on it."""
    revision: int

    @cached_property
    def fingerprint(self) -> Fingerprint | None:
        """Of the model that it trains."""
        return fingerprint(self.describe())

    @cached_property
    def _described(self) -> tuple[tuple[str, str], ...]:
        """Names and kinds by layer index."""
        found = sorted((self.describe() or {}).get("layers", []), key=lambda layer: layer["index"])
        return tuple((layer["name"], layer.get("kind", "")) for layer in found)

    @cached_property
    def layers(self) -> tuple[str, ...]:
        """Names by layer index, as requests and files have them."""
        return tuple(name for name, _ in self._described)

    def layer(self, index: int) -> str:
        """A layer's name as requests and files have it; events that belong to no layer have none."""
        return self._at(self.layers, index)

    @cached_property
    def titles(self) -> tuple[str, ...]:
        """What people read as names, by layer index."""
        return tuple(layer_title(name, kind) for name, kind in self._described)

    def title(self, index: int) -> str:
        """What people read as a layer's name, in tables and figures alike: `classifier.fc6`, or `4 (Conv2d)`; empty for
        events that belong to no layer."""
        return self._at(self.titles, index)

    @cached_property
    def units(self) -> SharedUnits:
        """The units that carry several layers."""
        return self.read_units()

    @cached_property
    def buckets(self) -> dict[int, str]:
        """What people read as names of the units that carry several layers, by unit."""
        return {unit: self.event_title(NONE, unit) for unit in self.units.parts}

    def event_title(self, layer: int, unit: int) -> str:
        """What an event is about, as people read it: `bucket of conv1, conv2, fc2, out` where its unit carries several
        layers, else its layer's title."""
        members = self.units.layers(unit)
        if not members:
            return self.title(layer)
        names = [self.title(member) for member in members[:MOST_NAMED]]
        more = f" and {len(members) - MOST_NAMED} more" if len(members) > MOST_NAMED else ""
        return f"bucket of {', '.join(names)}{more}"

    def event_named(self, layer: int, unit: int) -> str:
        """The same where there is little room: `conv1 + 3`, else its layer's title."""
        members = self.units.layers(unit)
        return f"{self.title(members[0])} + {len(members) - 1}" if members else self.title(layer)

    def message_title(self, layer: int) -> str:
        """What messages are about that are known by the layer in their events."""
        return self.event_title(layer, self.units.begins.get(layer, NONE))

    def message_named(self, layer: int) -> str:
        """The same where there is little room."""
        return self.event_named(layer, self.units.begins.get(layer, NONE))

    def fitting(self, index: int, room: int) -> str:
        """The same in at most `room` characters: of a number without its kind, of a long name its end, in which it
        differs from its neighbours'."""
        name = self.title(index)
        if len(name) > room:
            name = self.layer(index)
        return name if len(name) <= room else "…" + name[1 - room :]

    @staticmethod
    def _at(names: tuple[str, ...], index: int) -> str:
        if index < 0:
            return ""
        return names[index] if index < len(names) else f"layer {index}"

    def party(self, index: int) -> str:
        return self.parties[index] if 0 <= index < len(self.parties) else f"party {index}"

    def without(self, what: str, event: str, done: str) -> str:
        """Why there is nothing to draw: `No loss yet: the first step has not ended`, or, of what has ended itself, `No
        loss: it ended before the first step had ended`."""
        if self.over:
            return f"No {what}: it ended before the {event} had {done}"
        return f"No {what} yet: the {event} has not {done}"

    @property
    def no_bytes(self) -> str:
        """The same of bytes on links."""
        return f"No bytes{': nothing went' if self.over else ' yet: nothing has gone'} over a link"


def period_of(session: Session, job_id: str) -> int:
    """Steps from one average of a job's workers to the next, as its plan says; 1 where they meet in every step. Read
    out of a plan that may be too large to load for a row of a list."""
    period = Job.plan[("consistency", "period")].as_integer()
    return session.scalar(select(period).where(Job.id == job_id)) or 1


def known(spec: Any, path: str, kind: type[T]) -> T | None:
    """The value at a dotted path of a specification that cannot be read as a whole; None where it holds none."""
    for name in path.split("."):
        spec = spec.get(name) if isinstance(spec, dict) else None
    return spec if isinstance(spec, kind) else None


def _own_defaults(job: Job, part: str) -> dict[str, Any] | None:
    """Of a user's own function, read out of a description that may be too large to load for a row of a list. None where
    another version described it, and kept none."""
    session = object_session(job)
    if session is None:
        return known(job.description, f"defaults.{part}", dict)
    told = Job.description[("defaults", part)].as_json()
    found = session.scalar(select(told).where(Job.id == job.id))
    return found if isinstance(found, dict) else None


def job_facts(job: Job, attempt: Attempt | None) -> JobFacts:
    spec = job.spec if isinstance(job.spec, dict) else {}  # another version may have stored it
    network = known(spec, "network", dict) or {}
    rehearsed, scale = None, 1.0
    if spec.get("fidelity") == "rehearse":
        rehearsal = from_plain(RehearsalSpec, spec.get("rehearsal", {}))
        rehearsed, scale = rehearsal.text, rehearsal.scale
    return JobFacts(
        id=job.id,
        name=job.name,
        strategy=known(spec, "strategy.name", str) or StrategySpec.name,
        model=resolved.source("model", spec, lambda: _own_defaults(job, "model")),
        data=resolved.source("data", spec, lambda: _own_defaults(job, "data")),
        workers=_workers(known(spec, "cluster.workers", int) or 0, attempt),
        global_batch=known(spec, "training.global_batch", int) or TrainingSpec.global_batch,
        threads=known(spec, "cluster.threads", int) or ClusterSpec.threads,
        device=rehearsed or _device(attempt) or known(spec, "cluster.device", str) or ClusterSpec.device,
        device_models=() if rehearsed else _device_models(attempt),
        rehearsed=rehearsed,
        slowed=_slowed(spec),
        scale=scale,
        precision=known(spec, "training.precision", str) or TrainingSpec.precision,
        rate=resolved.network(spec),
        settings=resolved.settings(spec),
        hosts=network.get("hosts"),
        baseline_id=job.baseline_id,
        started_unix_ns=job.started_unix_ns,
        ended_unix_ns=job.ended_unix_ns,
        describe=lambda: job.description,
        read_units=lambda: shared_units.known(
            job.id,
            lambda: (job.plan, job.description),
            workers=_workers(known(spec, "cluster.workers", int) or 0, attempt),
            hosts=network.get("hosts"),
            scale=scale,
        ),
        parties=tuple(attempt.parties) if attempt else (),
        attempt=attempt.id if attempt else None,
        attempt_number=attempt.number if attempt else None,
        ended=job.state in ENDED,
        over=job.state in ENDED or (attempt is not None and attempt.ended_unix_ns is not None),
        revision=job.revision,
    )


def _slowed(spec: dict[str, Any]) -> str | None:
    try:
        return from_plain(FaultsSpec, spec.get("faults", {})).text
    except UserError:
        return "slowed: in a way that this version cannot read"


def _workers(stored: int, attempt: Attempt | None) -> int:
    """As many as the specification says, else as the attempt had; at least 1."""
    had = sum(party.startswith("worker ") for party in attempt.parties) if attempt else 0
    return stored if stored > 0 else max(had, 1)


def _device(attempt: Attempt | None) -> str | None:
    """Kind of the devices that an attempt was given: `cpu` or `cuda`; None before it was given any."""
    given = (attempt.devices if attempt else None) or []
    return " and ".join(sorted({device.partition(":")[0] for device in given})) or None


def _device_models(attempt: Attempt | None) -> tuple[str, ...]:
    """What the scheduler knew of the devices when it gave them."""
    return tuple(sorted(set(filter(None, (attempt.device_models if attempt else None) or []))))
