"""The API's OpenAPI document as it is stored: to make it takes seconds of a core, and every run of tests, of whatever
lane, would begin with that. `test_api_guard.py` holds it against the one that the service makes."""

from __future__ import annotations

import json
from typing import Any

from tests.backend.forked import ROOT

DOCUMENT: dict[str, Any] = json.loads((ROOT / "frontend" / "openapi.json").read_text(encoding="utf-8"))
