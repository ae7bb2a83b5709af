"""What happens in one round, drawn from a seed: which jobs, which deaths, when."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Literal, get_args

from backend.chaos.victims import Role

Act = Literal["server", "cancel", "node"] | Role
STEPS, BATCH, BACKOFF_S = 150, 32, 0.3
IN_A_LAB = 0.25
"""How many of the jobs."""
SPREAD = 0.6
"""How many of the jobs on nodes are on several."""
DEVICES = 3
"""CPU slots of the server: enough for the widest pair of jobs, too few for two of the wide ones."""
STRATEGIES = ("p3", "parameter-server", "ring-allreduce", "central-reduce", "native-allreduce", "ddp")
OVER_NODES = ("p3", "parameter-server", "ring-allreduce", "central-reduce")
"""The same, of those that run on several nodes."""
FATAL: tuple[Act, ...] = ("server", *get_args(Role))


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing that happens."""

    at: float
    """When, as a share of the time that an undisturbed job takes from its submission to its end."""
    act: Act
    choice: float
    """0 to 1: which of those that there are."""
    away: float = 0.0
    """Of a server, or a node: seconds until it is started again."""


@dataclass(frozen=True, kw_only=True)
class Script:
    """One round."""

    jobs: tuple[dict[str, Any], ...]
    """Their specifications."""
    steps: tuple[Step, ...]
    """In order of time."""


def draw(seed: int, number: int, *, labs: bool = True, nodes: bool = False) -> Script:
    """Round `number` of the run with this seed: always the same, but for labs, where these are not permitted. `nodes`:
    jobs run on nodes of a cluster, which die, too."""
    dice = random.Random(f"{seed}:{number}")
    jobs = tuple(
        _job(dice, f"seed {seed} round {number} job {i}", labs=labs, nodes=nodes)
        for i in range(dice.choice((1, 1, 2)))
    )
    acts = dice.sample((*FATAL, "node") if nodes else FATAL, dice.choice((1, 1, 2, 3)))
    if dice.random() < 0.2:
        acts.append("cancel")
    steps = (
        Step(at=dice.uniform(0, 1.1), act=act, choice=dice.random(), away=dice.uniform(0, 1.5))
        for act in acts
    )
    return Script(jobs=jobs, steps=tuple(sorted(steps, key=lambda step: step.at)))


def _job(dice: random.Random, name: str, *, labs: bool, nodes: bool) -> dict[str, Any]:
    workers = dice.choice((1, 2, 2))
    strategy = dice.choice(OVER_NODES if nodes else STRATEGIES) if workers > 1 else "single"
    retries, hosts = dice.choice((0, 0, 1)), dice.random() < IN_A_LAB
    asked = job(
        name, workers=workers, strategy=strategy, retries=retries, hosts=workers if hosts and labs else None
    )
    return over_nodes(asked, spread=dice.random() < SPREAD) if nodes else asked


def over_nodes(asked: dict[str, Any], *, spread: bool) -> dict[str, Any]:
    """The job on nodes of a cluster."""
    cluster = asked["cluster"] | {"nodes": "spread" if spread else "pack"}
    return asked | {"cluster": cluster, "network": {"trusted": True}}


def job(
    name: str, *, workers: int = 2, strategy: str = "p3", retries: int = 0, hosts: int | None = None
) -> dict[str, Any]:
    """A short job; with `hosts` it runs in a lab."""
    return {
        "name": name,
        "model": {"name": "mlp"},
        "data": {"name": "digits"},
        "strategy": {"name": strategy},
        "cluster": {"workers": workers, "device": "cpu"},
        "training": {"steps": STEPS, "global_batch": BATCH},
        "evaluation": {"every_epochs": None, "at_end": False},
        "network": {"hosts": hosts},
        "retry": {"times": retries, "backoff_s": BACKOFF_S},
    }
