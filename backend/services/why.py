"""An exposed wait and its explanation, as the API answers it."""

from __future__ import annotations

import numpy as np
from sqlalchemy.orm import Session

from backend.figures.facts import JobFacts
from backend.figures.source import Source
from backend.figures.waits import look_up
from backend.figures.why import Wait
from backend.figures.why_words import cause_words, sentence
from backend.schemas import why as schema
from backend.services.errors import NotFound
from engine.telemetry.events import NONE, Kind


def read(session: Session, job_id: str, attempt: int | None, wait: Wait) -> schema.Why:
    """Raises NotFound where there is no such wait, or no longer in detail."""
    source = Source(session, job_id, attempt)
    why = look_up(source, wait)
    job = source.job
    if why is None:
        raise NotFound(
            f"Of worker {wait.party} in step {wait.step} no wait for layer {wait.layer} is recorded. Every event"
            " is kept of some steps only; choose a wait of the timeline"
        )
    receive, send = why.path[why.path["kind"] == Kind.RECEIVE], why.path[why.path["kind"] == Kind.SEND]
    return schema.Why(
        text=sentence(why, job),
        worker=job.party(int(why.wait["party"])),
        step=int(why.wait["step"]),
        layer=job.layer(int(why.wait["layer"])),
        layer_name=job.event_title(int(why.wait["layer"]), int(why.wait["unit"])),
        unit=int(why.wait["unit"]),
        start_ns=int(why.wait["start"]),
        end_ns=int(why.wait["end"]),
        stretches=[
            schema.Stretch(
                cause=stretch.cause,
                text=cause_words([stretch], job),
                from_ns=stretch.from_ns,
                to_ns=stretch.to_ns,
                party=job.party(stretch.party),
                peer=None if stretch.peer == NONE else job.party(stretch.peer),
                ahead=[
                    schema.Ahead(layer=job.layer(layer), layer_name=job.message_title(layer), ns=ns)
                    for layer, ns in stretch.ahead
                ],
            )
            for stretch in why.stretches
        ],
        receive=_message(receive[0], job) if len(receive) else None,
        send=_message(send[0], job) if len(send) else None,
        ahead=[_message(row, job) for row in why.ahead],
    )


def _message(row: np.void, job: JobFacts) -> schema.Message:
    return schema.Message(
        party=job.party(int(row["party"])),
        peer=job.party(int(row["peer"])),
        layer=job.layer(int(row["layer"])),
        unit=int(row["unit"]),
        queued_ns=int(row["queued"]),
        start_ns=int(row["start"]),
        end_ns=int(row["end"]),
        bytes=int(row["bytes"]),
    )
