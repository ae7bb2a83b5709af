"""What all schemas share. The client reads them, too: nothing of the server's packages here."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Schema(BaseModel):
    """A response: frozen, its fields documented by the strings under them."""

    model_config = ConfigDict(use_attribute_docstrings=True, frozen=True)
