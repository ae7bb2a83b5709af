"""What happens in one round, drawn from a seed: which jobs, which deaths, when."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Literal

Act = Literal["server", "worker", "supervisor", "cancel"]
STEPS, BATCH, BACKOFF_S = 150, 32, 0.3
DEVICES = 3
"""CPU slots of the server: enough for the widest pair of jobs, too few for two of the wide ones."""
STRATEGIES = ("p3", "parameter-server", "ring-allreduce", "central-reduce")
FATAL: tuple[Act, ...] = ("server", "worker", "supervisor")


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing that happens."""

    at: float
    """When, as a share of the time that an undisturbed job takes from its submission to its end."""
    act: Act
    choice: float
    """0 to 1: which of those that there are."""
    away: float = 0.0
    """Of a server: seconds until it is started again."""


@dataclass(frozen=True, kw_only=True)
class Script:
    """One round."""

    jobs: tuple[dict[str, Any], ...]
    """Their specifications."""
    steps: tuple[Step, ...]
    """In order of time."""


def draw(seed: int, number: int) -> Script:
    """Round `number` of the run with this seed: always the same."""
    dice = random.Random(f"{seed}:{number}")
    jobs = tuple(_job(dice, f"seed {seed} round {number} job {i}") for i in range(dice.choice((1, 1, 2))))
    acts = dice.sample(FATAL, dice.choice((1, 1, 2, 3)))
    if dice.random() < 0.2:
        acts.append("cancel")
    steps = (
        Step(at=dice.uniform(0, 1.1), act=act, choice=dice.random(), away=dice.uniform(0, 1.5))
        for act in acts
    )
    return Script(jobs=jobs, steps=tuple(sorted(steps, key=lambda step: step.at)))


def _job(dice: random.Random, name: str) -> dict[str, Any]:
    workers = dice.choice((1, 2, 2))
    strategy = dice.choice(STRATEGIES) if workers > 1 else "single"
    return job(name, workers=workers, strategy=strategy, retries=dice.choice((0, 0, 1)))


def job(name: str, *, workers: int = 2, strategy: str = "p3", retries: int = 0) -> dict[str, Any]:
    """A short job."""
    return {
        "name": name,
        "model": {"name": "mlp"},
        "data": {"name": "digits"},
        "strategy": {"name": strategy},
        "cluster": {"workers": workers, "device": "cpu"},
        "training": {"steps": STEPS, "global_batch": BATCH},
        "evaluation": {"every_epochs": None, "at_end": False},
        "retry": {"times": retries, "backoff_s": BACKOFF_S},
    }
