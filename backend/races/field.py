"""The field of a race: every member under every condition, as the job that it runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from backend.races.spec import MemberSpec, RaceSpec, labels
from engine.plan.job import JobSpec, StrategySpec
from engine.plan.units_of_measure import exact_rate

NAME_LENGTH = 200


@dataclass(frozen=True, kw_only=True)
class Condition:
    """What a comparison holds equal. None: as the race's job says."""

    rate: str | None = None
    """In one spelling, however it was asked for."""
    workers: int | None = None
    batch: int | None = None

    @property
    def text(self) -> str:
        """`100Mbit, 4 workers`; empty where the job's own hold."""
        parts = [
            self.rate,
            None if self.workers is None else f"{self.workers} worker{'s' * (self.workers > 1)}",
            None if self.batch is None else f"batch {self.batch}",
        ]
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True, order=True)
class Cell:
    """Where a member meets a condition, by their places in the race."""

    member: int
    condition: int


def conditions(race: RaceSpec) -> list[Condition]:
    """Every combination of the rates, numbers of workers and batches."""
    rates = [exact_rate(rate, f"rates.{number}") for number, rate in enumerate(race.rates)]
    return [
        Condition(rate=rate, workers=workers, batch=batch)
        for rate, workers, batch in product(
            rates or (None,), race.workers or (None,), race.batches or (None,)
        )
    ]


def cells(race: RaceSpec) -> list[Cell]:
    """All of them, condition by condition."""
    return [
        Cell(member, condition)
        for condition in range(len(conditions(race)))
        for member in range(len(race.members))
    ]


def job(race: RaceSpec, cell: Cell, round_: int = 0) -> JobSpec:
    """What the cell runs in a round (from 0). Raises UserError where no such job can be."""
    member, condition = race.members[cell.member], conditions(race)[cell.condition]
    common = race.job
    cluster, network, training = common.cluster, common.network, common.training
    if condition.workers is not None:
        cluster = replace(cluster, workers=condition.workers)
    if condition.rate is not None:
        network = replace(network, rate=condition.rate)
    if condition.batch is not None:
        training = replace(training, global_batch=condition.batch)
    if race.reseed:
        training = replace(training, seed=training.seed + round_)
    return replace(
        common,
        name=_name(race, member, cell, condition, round_),
        strategy=StrategySpec(name=member.strategy, options=member.options),
        overrides=common.overrides if member.overrides is None else member.overrides,
        cluster=replace(cluster, alone=not race.beside),
        network=network,
        training=training,
        baseline=None,
    )


def _name(race: RaceSpec, member: MemberSpec, cell: Cell, condition: Condition, round_: int) -> str:
    """`digits: p3, 100Mbit, round 2`; the race's own name gives way where that is too long."""
    parts = [labels(race.members)[cell.member], condition.text, f"round {round_ + 1}"]
    rest = ", ".join(part for part in parts if part)
    return f"{race.title[: NAME_LENGTH - len(rest) - 2]}: {rest}"[:NAME_LENGTH]
