"""Where a new job begins."""

from __future__ import annotations

from fastapi import APIRouter

from backend.api.deps import problems
from backend.schemas.templates import Template, TemplateRead, TemplateText
from backend.services import templates

router = APIRouter(prefix="/templates", tags=["templates"])


@router.get("")
def list_templates() -> list[Template]:
    """Jobs that are complete in themselves."""
    return templates.listed()


@router.post("/read", responses=problems(415, 422))
def read_template(file: TemplateText) -> TemplateRead:
    """What the text of a YAML or JSON file says, for a form to be filled from: parsed, not yet judged."""
    return templates.read(file.text)
