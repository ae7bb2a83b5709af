"""Where a new job begins: a template of ours, or a file of one's own."""

from __future__ import annotations

from functools import cache

from backend import templates
from backend.schemas.templates import Template, TemplateRead
from engine.plan.documents import load_object


@cache
def listed() -> list[Template]:
    """Every template of ours."""
    return [
        Template(name=name, summary=templates.summary(name), spec=templates.load(name))
        for name in templates.names()
    ]


def read(text: str) -> TemplateRead:
    """What a file says, by the terminal's own reader. Raises UserError with the line of a syntax error."""
    return TemplateRead(spec=load_object(text, "the file"))
