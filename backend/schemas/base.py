"""What all schemas share."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Body
from pydantic import BaseModel, ConfigDict, PlainValidator

from engine.errors import UserError
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain


class Schema(BaseModel):
    """A response: frozen, its fields documented by the strings under them."""

    model_config = ConfigDict(use_attribute_docstrings=True, frozen=True)


def _specification(data: Any) -> JobSpec:
    """The engine's own reader: the same strictness and the same messages in API, terminal and workers."""
    try:
        _refuse_nul(data, "")
    except RecursionError:
        raise UserError("", "the body", "is nested too deeply", "A job has a few levels") from None
    return from_plain(JobSpec, data)


def _refuse_nul(data: Any, field: str) -> None:
    """A character that PostgreSQL stores in no text: one such job would break every search over all of them."""
    if isinstance(data, dict):
        for name, value in data.items():
            _refuse_nul(name, field)
            _refuse_nul(value, f"{field}.{name}" if field else str(name))
    elif isinstance(data, list):
        for value in data:
            _refuse_nul(value, field)
    elif isinstance(data, str) and "\0" in data:
        raise UserError(field, data, "holds a NUL character", "Leave it out")


SpecBody = Annotated[
    JobSpec,
    PlainValidator(_specification, json_schema_input_type=JobSpec),
    Body(description="The job's specification"),
]
"""A request body that is a job specification."""
