"""What jobs need and nobody is to read."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, SecretStr

from backend.schemas.base import Schema


class SecretValue(BaseModel):
    """What is to be kept."""

    model_config = ConfigDict(use_attribute_docstrings=True, extra="forbid", hide_input_in_errors=True)

    value: SecretStr
    """A password, a token, a key. Nothing ever answers it."""


class SecretView(Schema):
    """A secret, but for what it is."""

    name: str
    """The environment variable that a job's processes find it in."""
    changed_at: datetime
    """When it was kept last."""
