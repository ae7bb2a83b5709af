"""What all schemas share."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Body
from pydantic import BaseModel, ConfigDict, PlainValidator

from engine.plan.job import JobSpec
from engine.plan.serde import from_plain


class Schema(BaseModel):
    """A response: frozen, its fields documented by the strings under them."""

    model_config = ConfigDict(use_attribute_docstrings=True, frozen=True)


def _specification(data: Any) -> JobSpec:
    """The engine's own reader: the same strictness and the same messages in API, terminal and workers."""
    return from_plain(JobSpec, data)


SpecBody = Annotated[
    JobSpec,
    PlainValidator(_specification, json_schema_input_type=JobSpec),
    Body(description="The job's specification"),
]
"""A request body that is a job specification."""
