"""What may be refused is what the engine says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import engine
from tests.fuzz.refusals import ALLOWED


@pytest.fixture(scope="module")
def said() -> str:
    """The engine's sources, each sentence in one line."""
    files = Path(engine.__file__).parent.rglob("*.py")
    return re.sub(r'"\s*\n\s*f?"', "", "\n".join(path.read_text() for path in files))


@pytest.mark.parametrize("rule", [allowed.rule for allowed in ALLOWED])
def test_the_engine_has_such_a_sentence(rule: str, said: str) -> None:
    assert re.search(rule, said), "strike it out, or it would excuse another refusal one day"
