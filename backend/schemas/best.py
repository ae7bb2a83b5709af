"""Which plan of a race is best, by four criteria, as the API shows it."""

from __future__ import annotations

from typing import Literal

from backend.schemas.base import Schema
from backend.schemas.races import State


class BestPlace(Schema):
    """One member by one criterion."""

    member: int
    """Its place among the race's members, from 0."""
    name: str
    value: float
    """Mean over the rounds: samples per second, a share (accuracy), or nats (loss)."""
    low: float | None
    """Ends of its 95 % confidence interval, by itself. Null with fewer than three rounds."""
    high: float | None
    behind: float | None
    """By how much the first one is better: how many times as fast it is, or the difference of scores. Null of the first
    one itself."""
    behind_low: float | None
    """Ends of that difference's interval, wide enough for all pairs of members. Null with fewer than three rounds."""
    behind_high: float | None
    worse: bool
    """Whether it is behind by more than chance, and by enough to count."""
    unsure: bool
    """Whether there are too few rounds to tell: it is not `worse`, and its interval leaves room for a difference that
    matters: 5 % of speed, 1 point of accuracy, or 0.05 of loss."""
    missing: int | None
    """If `unsure`: so many more rounds that differ as these do would tell. Null: more than 100."""


class Criterion(Schema):
    """All members by one criterion, the best first."""

    name: Literal["speed", "attained", "in_time", "in_samples"]
    title: str
    """`Best accuracy for a given time`."""
    at: str | None
    """At which time, or after how many samples, scores are compared: `12.3 s, when the first run had ended`. Null for
    the other two."""
    verdict: str
    """Who is best and who is behind, by how much; `No difference from p3 seen`; or `Too few to
    tell`, and what is missing."""
    reason: str | None
    """Why, by what was measured. Null where no difference is seen, or where nothing that was measured tells."""
    best: list[str]
    """The first one, and whoever is not behind it for certain. Empty where there are too few rounds for a verdict."""
    rounds: int
    """On how many rounds it rests."""
    places: list[BestPlace]


class BestPoint(Schema):
    """One evaluation, the mean over rounds."""

    step: float
    samples: float
    """Trained on until then."""
    sent_bytes: float | None
    """Sent until then by all parties. Null: nobody counted them."""
    seconds: float
    """Since the first step, evaluations included."""
    score: float
    low: float | None
    """Ends of its 95 % confidence interval over rounds. Null with fewer than three."""
    high: float | None


class BestCurve(Schema):
    """How one member learned."""

    member: int
    name: str
    rounds: int
    """Over how many."""
    points: list[BestPoint]


class BestCondition(Schema):
    """One condition of the race."""

    condition: str
    """`100Mbit, 4 workers`; empty where the race's job says it all."""
    sentence: str
    """The answer in a sentence."""
    criteria: list[Criterion]
    curves: list[BestCurve]
    notes: list[str]
    """What to know of these figures."""


class RaceBest(Schema):
    """Which plan is best: papers 001's question, by its four criteria."""

    race_id: str
    name: str
    state: State
    score: Literal["accuracy", "loss"]
    """What plans are compared by: test accuracy (higher is better), or test loss (lower is better)."""
    seeds: int
    """From how many seeds a job has succeeded: each round has its own if the race asks for it; else there is one."""
    conditions: list[BestCondition]
