"""All layers of the grammar: name -> what writes one."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.grammar import norms, plain, sequences, special
from tests.fuzz.grammar.writer import Part, Writer
from tests.fuzz.network import Block

LAYERS: dict[str, Callable[[Writer, Block], Part]] = {
    **plain.LAYERS,
    **norms.LAYERS,
    **sequences.LAYERS,
    **special.LAYERS,
}
"""Simple ones first: a failing network is made smaller in this order."""
