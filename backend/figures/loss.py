"""Loss of every step and, below it, the test accuracy."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from backend.figures.base import finish, notice
from backend.figures.course import course
from backend.figures.facts import JobFacts
from backend.figures.request import FigureRequest
from backend.figures.source import Source
from backend.figures.theme import COLOURS

MAX_POINTS = 1_000
SMOOTH_SHARE = 1 / 24
"""The bold line is a moving average over this share of the points: single steps' losses are noisy."""


def loss(source: Source, request: FigureRequest) -> go.Figure:
    """Training loss (mean over the workers' samples) and test accuracy by step; of an attempt that goes on from a
    checkpoint also what it rests on."""
    progress, accuracy = [], []
    for stretch in course(source):
        steps, measured = stretch.source.progress(MAX_POINTS), stretch.source.metric("test_accuracy")
        progress.append(steps[stretch.has(steps)])
        accuracy.append(measured[stretch.has_measured(measured)])
    return draw(source.job, np.concatenate(progress), np.concatenate(accuracy), request)


def draw(job: JobFacts, progress: np.ndarray, accuracy: np.ndarray, request: FigureRequest) -> go.Figure:
    """The figure of PROGRESS_ROW and METRIC_ROW."""
    progress = progress[np.isfinite(progress["loss"])]
    accuracy = accuracy[np.isfinite(accuracy["value"])]
    revision = f"loss:{job.id}"
    if not len(progress) and not len(accuracy):
        return notice(request, revision=revision, text=job.without("loss", "first step", "ended"))
    both = len(accuracy) > 0
    figure = make_subplots(
        rows=2 if both else 1,
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.07,
        row_heights=[0.58, 0.42] if both else [1.0],
    )
    colours = COLOURS[request.theme]
    _loss(figure, progress, colours.series[0])
    figure.update_yaxes(title_text="training loss", row=1, col=1, rangemode="tozero")
    if both:
        _accuracy(figure, accuracy, colours.series[2], colours.text)
        figure.update_yaxes(title_text="test accuracy", tickformat=".0%", range=[0, 1], row=2, col=1)
    figure.update_xaxes(title_text="step", row=2 if both else 1, col=1)
    figure.update_layout(hovermode="x unified", showlegend=False)
    return finish(
        figure, request, revision=revision, height=420 if both else 280, alt=_words(progress, accuracy)
    )


def _words(progress: np.ndarray, accuracy: np.ndarray) -> str:
    said = []
    if len(progress):
        said.append(f"training loss {progress['loss'][-1]:.3g} at step {progress['step'][-1]}")
    if len(accuracy):
        best = accuracy[accuracy["value"].argmax()]
        said.append(f"best test accuracy {best['value']:.2%} at step {best['step']}")
    return ", ".join(said)


def smooth(values: np.ndarray, share: float = SMOOTH_SHARE) -> np.ndarray:
    """Centred moving average of (n) values over `share` of them on either side, at least one; its window shrinks
    towards both ends."""
    half = max(1, round(len(values) * share))
    total = np.concatenate([[0.0], np.cumsum(values)])
    at = np.arange(len(values))
    reach = np.minimum(half, np.minimum(at, len(values) - 1 - at))
    return (total[at + reach + 1] - total[at - reach]) / (2 * reach + 1)


def _loss(figure: go.Figure, progress: np.ndarray, colour: str) -> None:
    step = progress["step"]
    line: dict[str, Any] = {"mode": "lines", "x": step}
    figure.add_trace(
        go.Scatter(
            **line,
            y=progress["loss"],
            name="loss",
            line={"width": 1, "color": colour},
            opacity=0.35,
            hovertemplate="%{y:.4g}",
        ),
        row=1,
        col=1,
    )
    figure.add_trace(
        go.Scatter(
            **line,
            y=smooth(progress["loss"]),
            name="smoothed",
            line={"width": 2.5, "color": colour},
            hovertemplate="%{y:.4g}",
        ),
        row=1,
        col=1,
    )


def _accuracy(figure: go.Figure, accuracy: np.ndarray, colour: str, ink: str) -> None:
    best = int(accuracy["value"].argmax())
    figure.add_trace(
        go.Scatter(
            x=accuracy["step"],
            y=accuracy["value"],
            mode="lines+markers",
            name="test accuracy",
            line={"width": 2.5, "color": colour},
            marker={"size": 6},
            hovertemplate="%{y:.2%}",
        ),
        row=2,
        col=1,
    )
    figure.add_annotation(
        x=int(accuracy["step"][best]),
        y=float(accuracy["value"][best]),
        text=f"best {accuracy['value'][best]:.2%}",
        font={"color": ink},
        yshift=13,
        xanchor="right",
        row=2,
        col=1,
    )
