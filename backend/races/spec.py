"""RaceSpec: everything a person says about a race. Validated at construction, field by field, like a job's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from engine.catalogue import STRICT
from engine.errors import UserError, require_within
from engine.plan.job import JobSpec
from engine.plan.overrides import Override
from engine.plan.units_of_measure import parse_rate
from engine.telemetry.estimates import FEWEST

FEWEST_ROUNDS = FEWEST
"""With fewer nothing can be called significant."""
USUAL_ROUNDS = FEWEST_ROUNDS + 1
"""Of a race that is not told how many. An interval over four rounds is 0.6 times as wide as one over three, and jobs
whose speed has two modes fall by chance into one order four times in a row a quarter as often as three times."""
MOST_ROUNDS, MOST_JOBS = 50, 2_000
RECOMMENDED = ("parameter-server", "p3", "ring-allreduce-overlap", "ddp")
"""Who races where nobody is named: one of each family, the plain one first."""


@dataclass(frozen=True, kw_only=True)
class MemberSpec:
    """One of the strategies that race."""

    __pydantic_config__ = STRICT

    strategy: str
    """A strategy of the catalogue."""
    options: dict[str, Any] = field(default_factory=dict)
    """Its own options; those left out keep its defaults."""
    overrides: tuple[Override, ...] | None = None
    """Other choices for some layers. Null: the job's own."""
    name: str | None = None
    """What people call it. Null: the strategy's name, with its options where two have the same one."""

    def __post_init__(self) -> None:
        from engine.strategies import strategy  # noqa: PLC0415 - commands that ask for no race load none of them

        try:
            strategy(self.strategy)
        except UserError as error:
            raise error.at("strategy") from None
        if self.name is not None and not 1 <= len(self.name.strip()) <= 100:
            raise UserError("name", self.name, "must have 1 to 100 characters", "Give a short name, or none")


def _plain(name: str) -> MemberSpec:
    return MemberSpec(strategy=name)


@dataclass(frozen=True, kw_only=True)
class RaceSpec:
    """A race: one job, run under every member at every rate, number of workers and batch."""

    __pydantic_config__ = STRICT

    name: str | None = None
    """What people call it. Null: the job's name."""
    job: JobSpec
    """What all have in common. Its own strategy does not take part unless it is a member, too."""
    members: tuple[MemberSpec, ...] = field(default_factory=lambda: tuple(map(_plain, RECOMMENDED)))
    """Who races. Left out: parameter-server, p3, ring-allreduce-overlap and ddp."""
    rates: tuple[str, ...] = ()
    """Limits of the network, as `100Mbit`: each member runs at each. Empty: at the job's own."""
    workers: tuple[int, ...] = ()
    """Numbers of workers, likewise."""
    batches: tuple[int, ...] = ()
    """Global batches, likewise."""
    rounds: int = USUAL_ROUNDS
    """How often each runs. In a round everybody runs once, in an order that turns from round to round, so that a
    machine whose speed drifts favours nobody. With fewer than 3 no difference is called significant."""
    reseed: bool = False
    """Whether every round has a seed of its own: the job's in the first, and one more in each further round. For the
    question which plan learns best; times hardly depend on it."""
    beside: bool = False
    """Whether other jobs may run at the same time. Then the result says so."""

    def __post_init__(self) -> None:
        if self.name is not None and not 1 <= len(self.name.strip()) <= 200:
            raise UserError("name", self.name, "must have 1 to 200 characters", "Give the race a short name")
        if not self.members:
            raise UserError("members", [], "nobody races", "Name at least one strategy; two to compare them")
        require_within("rounds", self.rounds, 1, MOST_ROUNDS)
        rates = [parse_rate(rate, f"rates.{number}") for number, rate in enumerate(self.rates)]
        if self.rates and self.job.network.host_rates:
            rule = "the job's network.host_rates say the rate host by host"
            raise UserError("rates", list(self.rates), rule, "Leave rates or network.host_rates out")
        for name, values in (("rates", rates), ("workers", self.workers), ("batches", self.batches)):
            if len(set(values)) < len(values):
                raise UserError(
                    name, list(getattr(self, name)), "one of them is there twice", "Give each once"
                )
        for number, count in enumerate(self.workers):
            _check(f"workers.{number}", partial(replace, self.job.cluster, workers=count))
            for straggler in self.job.faults.stragglers:
                if straggler.worker >= count:
                    rule = (
                        f"the job slows worker {straggler.worker}, counted from 0, which so many do not have"
                    )
                    raise UserError(
                        f"workers.{number}", count, rule, "Race more workers, or slow another one"
                    )
        if self.reseed:
            training = self.job.training
            _check("job.training.seed", partial(replace, training, seed=training.seed + self.rounds - 1))
        for number, batch in enumerate(self.batches):
            _check(f"batches.{number}", partial(replace, self.job.training, global_batch=batch))
        conditions = max(1, len(self.rates)) * max(1, len(self.workers)) * max(1, len(self.batches))
        jobs = len(self.members) * conditions * self.rounds
        if jobs > MOST_JOBS:
            counts = {
                name: len(getattr(self, name)) for name in ("members", "rates", "workers", "batches")
            } | {"rounds": self.rounds}
            most = max(counts, key=lambda name: counts[name])
            rule = " x ".join(f"{count} {name}" for name, count in counts.items() if count)
            raise UserError(
                most,
                counts[most],
                f"{rule} are {jobs} jobs; at most {MOST_JOBS}",
                "Race fewer things at once",
            )
        names = labels(self.members)
        if twice := next((name for name in names if names.count(name) > 1), None):
            rule = f"two members are called {twice!r}"
            raise UserError("members", twice, rule, "Give one of them a name, or other options")

    @property
    def title(self) -> str:
        """What people call it."""
        return self.name or self.job.name


def _check(field: str, make: Callable[[], object]) -> None:
    """Raises UserError at the race's field where no job can have that."""
    try:
        make()
    except UserError as error:
        raise error.at(field) from None


@dataclass(frozen=True, kw_only=True)
class NewMembers:
    """Who joins a race."""

    __pydantic_config__ = STRICT

    members: tuple[MemberSpec, ...]

    def __post_init__(self) -> None:
        if not self.members:
            raise UserError("members", [], "nobody joins", "Name at least one strategy")


def labels(members: tuple[MemberSpec, ...]) -> list[str]:
    """What each is called: its name, else its strategy; with options where another member has the same strategy."""
    strategies = [member.strategy for member in members]
    return [
        member.name or (_with_options(member) if strategies.count(member.strategy) > 1 else member.strategy)
        for member in members
    ]


def _with_options(member: MemberSpec) -> str:
    options = [f"{name}={value}" for name, value in sorted(member.options.items())]
    if member.overrides is not None:
        count = len(member.overrides)
        options.append(f"{count or 'no'} override{'s' * (count != 1)}")
    return f"{member.strategy} ({', '.join(options)})" if options else member.strategy
