"""Where codecs pay, for one job."""

from __future__ import annotations

from backend.schemas.base import Schema
from engine.plan.paying import Paying


class PayingView(Schema):
    """From which rate of a host's link down each codec saves time, for one job."""

    codecs: list[Paying]
    """Each in place of the job's own, and that, in the catalogue's order."""
    text: str
    """The same as a table in plain text, with what it assumes."""
