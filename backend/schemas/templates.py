"""Where a new job begins: a template, or the text of a file."""

from __future__ import annotations

from typing import Any

from backend.schemas.base import Schema
from engine.plan.job import JobSpec


class Template(Schema):
    """A job that is complete in itself."""

    name: str
    summary: str
    """What it shows."""
    spec: JobSpec


class TemplateText(Schema):
    """A file that a person opens."""

    text: str
    """YAML or JSON."""


class TemplateRead(Schema):
    """What stands in a file."""

    spec: dict[str, Any]
    """As it was written: nothing is filled in, and its fields are judged where a plan or a job is made of it."""
