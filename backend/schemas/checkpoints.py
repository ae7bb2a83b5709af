"""What a job's model can be had of."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import ConfigDict, Field

from backend.schemas.base import Schema

Exported = Literal["model", "optimizer"]


class Checkpoint(Schema):
    """What another attempt can go on from."""

    step: int
    """It was made after so many steps."""
    attempt: int | None
    """Number of the attempt that made it; null: that is not known."""
    written_at: datetime
    """When it was whole."""
    bytes: int
    """Of all its parts: the model, the optimizers' state, what codecs keep."""


class ModelEnd(Schema):
    """What a job has ended with."""

    step: int
    """How many steps were made."""
    attempt: int
    """Number of the attempt that made the last of them."""


class Checkpoints(Schema):
    """Of which steps a job's model can be exported."""

    items: list[Checkpoint]
    """The checkpoints that are kept, the newest first."""
    end: ModelEnd | None
    """What it has ended with; null: it has not succeeded."""


class ExportQuery(Schema):
    """What is to be exported."""

    model_config = ConfigDict(extra="forbid")

    step: int | None = Field(
        None,
        ge=0,
        le=2**31 - 1,
        description="The step of a checkpoint. Without it: what the job has ended with, else its newest checkpoint",
    )
    what: Exported = Field(
        "model",
        description="`model`: a safetensors file with the names of the model's state_dict. `optimizer`: the state_dict"
        " of its optimizer, as torch.save writes it; of a checkpoint only",
    )
