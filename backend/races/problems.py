"""The problems by which `trainyard best` asks which plan is best, so small that two cores answer in some minutes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import gcd, lcm
from typing import Any

from backend.races.spec import MemberSpec, RaceSpec
from engine.errors import UnknownNameError, UserError
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain, to_plain

SEEDS = 5
"""Each a round. With five plans there are ten pairs, for which Student's t asks for 5.6 standard deviations over five
seeds, and for 14.1 over three."""
EVALUATIONS = 8
"""Of a run, unless it has fewer steps."""
USUAL_PERIOD = 10
"""Steps between two averages of workers that train by themselves in between."""
WORDS = 1000
"""Of the text's vocabulary: the smallest network of words has most of its numbers there."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One of them."""

    name: str
    summary: str
    job: Mapping[str, Any]
    """Fields of its job's specification."""
    steps: int
    """How long it trains where nobody says otherwise."""


def _member(strategy: str, **options: Any) -> MemberSpec:
    return MemberSpec(strategy=strategy, options=options)


PLANS = (
    _member("parameter-server"),
    _member("p3"),
    _member("parameter-averaging", period=USUAL_PERIOD),
    _member("async-sgd"),
    _member("decentralized-async"),
)
"""Who is asked about where nobody is named: the families of papers 001, and p3."""

_TEXT = {"name": "text", "options": {"vocabulary": WORDS, "steps": 32, "pattern": "[ab]*.py"}}
"""A twentieth of the standard library, so that its test samples take a fraction of a second."""

PROBLEMS = (
    Problem(
        name="digits",
        summary="A small residual network learns 1,797 handwritten digits.",
        job={
            "model": {"name": "resnet-digits", "options": {"blocks": 1}},
            "data": {"name": "digits"},
            "training": {"global_batch": 64},
            "optimizer": {"name": "sgd", "learning_rate": 0.05, "options": {"momentum": 0.9}},
            "network": {"rate": "50Mbit"},
        },
        steps=80,
    ),
    Problem(
        name="gpt",
        summary="A small GPT learns the sources of Python's standard library.",
        job={
            "model": {
                "name": "gpt",
                "options": {"vocabulary": WORDS, "context": 32, "layers": 2, "hidden": 96, "heads": 4},
            },
            "data": _TEXT,
            "training": {"global_batch": 32},
            "optimizer": {"name": "adam", "learning_rate": 0.01},
            "network": {"rate": "200Mbit"},
        },
        steps=100,
    ),
    Problem(
        name="lstm",
        summary="A small LSTM language model learns the sources of Python's standard library.",
        job={
            "model": {"name": "lstm-lm", "options": {"vocabulary": WORDS, "layers": 1, "hidden": 128}},
            "data": _TEXT,
            "training": {"global_batch": 32},
            "optimizer": {"name": "sgd", "learning_rate": 2.0},
            "network": {"rate": "200Mbit"},
        },
        steps=100,
    ),
)


def problem(name: str) -> Problem:
    """The problem called `name`; raises UnknownNameError listing the known ones."""
    for entry in PROBLEMS:
        if entry.name == name:
            return entry
    raise UnknownNameError("PROBLEM", name, "problem", [entry.name for entry in PROBLEMS])


def job(found: Problem) -> dict[str, Any]:
    """The problem's job as a specification, with a worker for each of two cores."""
    training = {"seed": 1, "steps": found.steps, **found.job["training"]}
    return {"name": found.name, "cluster": {"workers": 2, "threads": 1}, **found.job, "training": training}


def is_evaluated(job: JobSpec) -> bool:
    """Whether its runs have scores at all."""
    evaluation = job.evaluation
    asked = evaluation.at_end or evaluation.every_epochs is not None or evaluation.every_steps is not None
    return job.fidelity == "train" and asked


def steps_between(steps: int, members: Iterable[MemberSpec]) -> int:
    """Steps from one evaluation to the next, for about EVALUATIONS of a run. Of plans whose workers meet every so many
    steps an iteration's time is that of such a period, with all that happens where they meet. Evaluations that fell on
    these steps, in most periods, would make these plans slower and no others: the numbers have no common divisor."""
    periods = [one.options.get("period") for one in members]
    meet = lcm(USUAL_PERIOD, *(one for one in periods if isinstance(one, int) and one > 0))
    every = max(1, steps // EVALUATIONS)
    while every > 1 and gcd(every, meet) > 1:
        every += 1
    return every


def asked(
    spec: Mapping[str, Any],
    *,
    members: tuple[MemberSpec, ...] = (),
    seeds: int = SEEDS,
    steps: int | None = None,
) -> RaceSpec:
    """The race that answers which plan is best for a job: as many rounds as seeds, evaluated EVALUATIONS times where
    the job does not say how often. Raises UserError, also for a job without scores."""
    made = from_plain(JobSpec, dict(spec))
    if steps is not None:
        made = replace(made, training=replace(made.training, steps=steps, epochs=None))
    if "evaluation" not in spec and made.training.steps is not None:
        every = steps_between(made.training.steps, members or PLANS)
        made = replace(made, evaluation=replace(made.evaluation, every_steps=every))
    if made.fidelity != "train":
        rule = "is asked which plan learns best, and a rehearsal learns nothing"
        raise UserError("fidelity", made.fidelity, rule, "Set fidelity: train, or ask `trainyard race`")
    if not is_evaluated(made):
        rule = "is asked which plan learns best, and is never evaluated"
        remedy = "Set evaluation.every_steps, or evaluation.at_end: true"
        raise UserError("evaluation", to_plain(made.evaluation), rule, remedy)
    return RaceSpec(
        name=f"Which plan is best: {made.name}"[:200],
        job=made,
        members=members or PLANS,
        rounds=seeds,
        reseed=True,
    )
