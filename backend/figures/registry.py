"""The catalogues of figures of a job, of a race and of a plan: explicit lists. (The same step of several jobs is
`race.py`.)"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from backend.figures.base import Labels, say_labels
from backend.figures.drift import drift
from backend.figures.heatmap import heatmap
from backend.figures.largest import largest
from backend.figures.loss import loss
from backend.figures.memory import memory
from backend.figures.race_learning import race_learning
from backend.figures.race_throughput import race_throughput
from backend.figures.request import FigureRequest
from backend.figures.source import Source
from backend.figures.speed_up import speed_up_figure
from backend.figures.staleness import staleness
from backend.figures.step_time import step_time
from backend.figures.throughput import throughput
from backend.figures.timeline import timeline
from backend.figures.utilization import utilization
from engine.errors import UnknownNameError
from engine.telemetry.definitions import DEFINITIONS


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One chart of a job."""

    name: str
    """In addresses."""
    title: str
    summary: str
    """What it shows, in one sentence."""
    terms: tuple[str, ...] = ()
    """What must be defined for whoever reads it: keys of `DEFINITIONS`."""
    build: Callable[[Source, FigureRequest], go.Figure]
    """Answers a figure for every job, whatever has been recorded of it so far."""

    @property
    def definitions(self) -> dict[str, str]:
        """Its terms, each with its one sentence."""
        return {term: DEFINITIONS[term] for term in self.terms}

    def draw(self, source: Source, request: FigureRequest) -> go.Figure:
        """The figure, which says so where it rests on a rehearsal or on slowed workers."""
        figure = self.build(source, request)
        say_labels(figure, request, Labels(rehearsed=source.job.rehearsed, slowed=source.job.slowed))
        return figure


FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        Figure(
            name="timeline",
            title="Timeline",
            build=timeline,
            summary="What every worker computed, sent and received when; exposed waiting is red.",
            terms=("exposed communication", "clock"),
        ),
        Figure(
            name="utilization",
            title="Link utilization",
            build=utilization,
            summary="What went over each link in each direction, and which layers' bytes it was.",
            terms=("link utilization", "layer utilization", "link rate"),
        ),
        Figure(
            name="heatmap",
            title="Layers over time",
            build=heatmap,
            summary="Which layers were waited for, and which layers' bytes were on the wire, over time.",
            terms=("exposed communication",),
        ),
        Figure(
            name="step-time",
            title="Step time",
            build=step_time,
            summary="Each worker's step split into computation, exposed communication, input and idle time.",
            terms=("iteration time", "exposed communication", "waiting for input", "processors' share"),
        ),
        Figure(
            name="staleness",
            title="Staleness",
            build=staleness,
            summary="How stale contributions were when they were applied, of each worker and to each layer.",
            terms=("staleness",),
        ),
        Figure(
            name="drift",
            title="Who is ahead",
            build=drift,
            summary="How stale each worker's contributions were, and how many steps it was ahead, over time.",
            terms=("staleness", "steps ahead"),
        ),
        Figure(
            name="speed-up",
            title="Speed-up",
            build=speed_up_figure,
            summary="Throughput beside the baseline's and beside linear scaling, where they may be compared.",
            terms=("speed-up", "throughput"),
        ),
        Figure(
            name="loss",
            title="Loss and accuracy",
            build=loss,
            summary="Training loss of every step, and the test accuracy.",
            terms=("convergence speed-up",),
        ),
        Figure(
            name="throughput",
            title="Throughput",
            build=throughput,
            summary="Samples per second, and how long an iteration takes.",
            terms=("throughput", "iteration time"),
        ),
        Figure(
            name="memory",
            title="Memory",
            build=memory,
            summary=(
                "What each worker holds of the host's memory, where shared pages count in each, and of its device's;"
                " the most between two samples; and what is on its way to a second tier of memory."
            ),
        ),
    )
}


def figure(name: str) -> Figure:
    """The figure of that name. Raises UnknownNameError, listing those there are."""
    if name not in FIGURES:
        raise UnknownNameError("figure", name, "figure", FIGURES)
    return FIGURES[name]


@dataclass(frozen=True, kw_only=True)
class ReadFigure:
    """One chart of what was read, or asked, for it: of a race of strategies, or of a job before it runs."""

    name: str
    """In addresses."""
    summary: str
    """What it shows, in one sentence."""
    build: Callable[[Any, FigureRequest], go.Figure]
    """Draws that."""


RACE_FIGURES: dict[str, ReadFigure] = {
    figure.name: figure
    for figure in (
        ReadFigure(
            name="throughput",
            summary="Samples per second of every member against the rate, the workers or the batch, with crossings.",
            build=race_throughput,
        ),
        ReadFigure(
            name="learning",
            summary="Test accuracy or loss of every member over steps, samples, bytes or time, with intervals.",
            build=race_learning,
        ),
    )
}


PLAN_FIGURES: dict[str, ReadFigure] = {
    figure.name: figure
    for figure in (
        ReadFigure(
            name="largest-batch",
            summary="The largest batch over a worker's memory, and how fast it is trained, for each way to save it.",
            build=largest,
        ),
    )
}


def plan_figure(name: str) -> ReadFigure:
    """The figure of that name. Raises UnknownNameError, listing those there are."""
    if name not in PLAN_FIGURES:
        raise UnknownNameError("figure", name, "figure of a plan", PLAN_FIGURES)
    return PLAN_FIGURES[name]


def race_figure(name: str) -> ReadFigure:
    """The figure of that name. Raises UnknownNameError, listing those there are."""
    if name not in RACE_FIGURES:
        raise UnknownNameError("figure", name, "figure of a race", RACE_FIGURES)
    return RACE_FIGURES[name]
