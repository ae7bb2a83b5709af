"""Workers without which an attempt goes on: while it trains as its servers tell it, then as its message says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.db import models
from backend.schemas import jobs as schema
from engine.plan.loss_words import Loss, losses_in
from engine.telemetry import absence


def losses_of(session: Session, row: models.Attempt) -> list[schema.LostWorker]:
    """Of an attempt, in their order."""
    workers = [party for party in row.parties if party.startswith("worker ")]
    if row.ended_unix_ns is None:
        return list(_told(session, row.id, len(workers)))
    return [_said(loss, workers) for loss in losses_in(row.message)]


def _said(loss: Loss, workers: Sequence[str]) -> schema.LostWorker:
    text = f"{loss.text}. "
    if loss.joined_again is not None:
        text += _back(loss.steps, loss.joined_again)
    else:
        text += (
            "The others trained on without it, and nobody took over its share of the data: from then on about one of "
            f"{len(workers)} samples of a step was not trained on."
        )
    return schema.LostWorker(worker=loss.worker, steps=loss.steps, text=_capital(text))


def _told(session: Session, attempt: int, workers: int) -> Iterator[schema.LostWorker]:
    """While it trains: why a worker was lost is known when the attempt has ended."""
    names = {
        name(rank): (rank, name is absence.joined)
        for rank in range(workers)
        for name in (absence.lost, absence.joined)
    }
    query = select(models.Metric).where(models.Metric.attempt_id == attempt, models.Metric.name.in_(names))
    values = {(*names[row.name], row.step): int(row.value or 0) for row in session.scalars(query)}
    for (rank, joined, incarnation), steps in sorted(values.items()):
        if joined:
            continue
        worker, back = f"worker {rank}", values.get((rank, True, incarnation + 1))
        text = f"{worker} was lost after {steps} steps. "
        if back is not None:
            text += _back(steps, back)
        else:
            text += (
                "The others train on without it, and nobody takes over its share of the data: about one of "
                f"{workers} samples of a step is not trained on."
            )
        yield schema.LostWorker(worker=worker, steps=steps, text=_capital(text))


def _back(steps: int, joined: int) -> str:
    """A worker that had contributed `steps` steps contributes again from its step `joined` on: its own steps, which
    others do not count."""
    missing = joined - steps
    if missing <= 0:
        return f"It joined again at its step {joined}, so that none of its steps is missing."
    were = "was" if missing == 1 else "were"
    return f"It joined again at its step {joined}: {missing} of its steps {were} never trained on."


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
