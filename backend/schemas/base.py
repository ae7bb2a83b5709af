"""What all schemas share. The client reads them, too: nothing of the server's packages here."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Schema(BaseModel):
    """A response: frozen, its fields documented by the strings under them."""

    model_config = ConfigDict(use_attribute_docstrings=True, frozen=True)


def build_when_used() -> None:
    """Build each schema that is imported from now on when it is first used: for a program that asks one thing of a
    server and ends. The server's routes build theirs."""
    Schema.model_config["defer_build"] = True
