"""Paying: where codecs pay for a job. A plan for each codec is played out, and the first who asks has what codecs cost
here measured: so one request is answered at a time."""

from __future__ import annotations

from backend.schemas.paying import PayingView
from backend.services.asker import Asker
from backend.services.plans import Planner
from backend.services.turns import Turns
from engine.plan.columns import aligned
from engine.plan.job import JobSpec
from engine.plan.paying import ASSUMED, table

WAITING = 2
"""Requests that may wait while one is answered, each on a thread that other requests need."""
RETRY_AFTER_S = 10


class CodecsPaying:
    """Answers; safe to call from many threads."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._turns = Turns(
            waiting=WAITING,
            busy="{places} requests ask where codecs pay, or wait for it",
            retry_after_s=RETRY_AFTER_S,
        )

    def find(self, spec: JobSpec, asker: Asker | None = None) -> PayingView:
        """Of every codec. Raises UserError where the job is refused, or its strategy has no codec, Busy where too many
        ask, and Left where the asker is gone."""
        with self._turns.turn(asker):
            found = self._planner.where_codecs_pay(spec, asker)
        return PayingView(codecs=found, text="\n".join([*aligned(table(found)), "", *ASSUMED]))
