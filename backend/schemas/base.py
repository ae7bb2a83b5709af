"""What all schemas share. The client reads them, too: nothing of the server's packages here."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter

from engine.catalogue import STRICT


class Schema(BaseModel):
    """A response: frozen, its fields documented by the strings under them."""

    model_config = ConfigDict(use_attribute_docstrings=True, frozen=True)


def keep_schemas(*kinds: Any) -> None:
    """Build the schemas of dataclasses now, and no more for each schema and route that has one of them: pydantic parses
    a dataclass's source for what documents its fields, which cost a server half of its start. Each of `kinds` has a
    configuration of its own. Where schemas are built when they are used, so are these."""
    if not Schema.model_config.get("defer_build"):
        for kind in kinds:
            kind.__pydantic_core_schema__ = TypeAdapter(kind).core_schema


def build_when_used() -> None:
    """Build each schema that is imported from now on when it is first used, and without what documents its fields: for
    a program that asks one thing of a server and ends. The server's routes build theirs, and say what fields mean: to
    find that, pydantic parses the source of every class."""
    Schema.model_config |= {"defer_build": True, "use_attribute_docstrings": False}
    STRICT["use_attribute_docstrings"] = False
