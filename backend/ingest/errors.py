"""Why a batch or a seal is refused."""

from __future__ import annotations

from typing import Any

from engine.errors import UserError


class IngestError(UserError):
    """Refused: sending the same again will not help. `status` is the HTTP status that says so."""

    def __init__(self, status: int, field: str, value: Any, rule: str, remedy: str) -> None:
        super().__init__(field, value, rule, remedy)
        self.status = status
