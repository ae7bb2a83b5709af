"""Three ways to begin, each a race that is filled in as far as it can be without knowing the person."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from backend import templates
from backend.races import demo
from backend.races.spec import RECOMMENDED, USUAL_ROUNDS, MemberSpec, RaceSpec
from engine.plan.serde import to_plain

Name = Literal["cluster", "own", "digits"]
WORKERS = 2
"""Of a race that computes: two cores are the fewest that can have one."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """One of them."""

    name: Name
    title: str
    summary: str
    """What one gets, for who chooses."""
    job: dict[str, Any]
    """Fields of a job's specification, as far as they are known."""
    members: tuple[MemberSpec, ...]
    """Who races."""
    rounds: int = USUAL_ROUNDS
    """How often."""


def starts(*, lab: bool) -> list[Start]:
    """All of them; `lab`: whether this machine can be several hosts, so that every strategy can be held to a rate."""
    return [
        _of_race(
            "cluster",
            "Race strategies on a rehearsed cluster",
            "VGG-19 on four hosts: all bytes travel over a slow network, computation is waited for. Some minutes, on "
            "any two cores.",
            demo.race(lab=lab),
        ),
        Start(
            name="own",
            title="My own model",
            summary="A function that makes your model and one that makes your data: which strategy suits them, on "
            "which network?",
            job={
                "name": "my model",
                "model": {"entrypoint": "", "directory": ""},
                "data": {"entrypoint": "", "directory": ""},
                "cluster": {"workers": WORKERS},
                "network": {"hosts": WORKERS if lab else None},
                "training": {"steps": 30, "global_batch": 32},
                "evaluation": {"every_epochs": None, "at_end": False},
            },
            members=tuple(MemberSpec(strategy=name) for name in RECOMMENDED),
        ),
        _of_race(
            "digits",
            "Handwritten digits",
            "A small residual network really learns 1,797 digits on this machine's cores, under four strategies.",
            _digits(),
        ),
    ]


def _digits() -> RaceSpec:
    job = templates.load("resnet-digits")
    return RaceSpec(name="digits", job=replace(job, cluster=replace(job.cluster, workers=WORKERS)))


def _of_race(name: Name, title: str, summary: str, race: RaceSpec) -> Start:
    job = {**to_plain(race.job), "name": race.title}
    return Start(name=name, title=title, summary=summary, job=job, members=race.members, rounds=race.rounds)
