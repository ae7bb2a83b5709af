"""Sixty networks, always the same, which together have everything that the grammar draws (`cover.py` has chosen them).

A number is another network after a change of the grammar, or of hypothesis. Then `test_sixty.py` says what is missing,
and this is what to do: `make fuzz SEED=15 N=600 ARGS="--keep FOLDER"`, and `python -m tests.fuzz.cover
FOLDER/campaign_15.jsonl`, which prints these lines anew.
"""

from __future__ import annotations

SEED = 15
TRAINED: tuple[int, ...] = ()
REFUSED: tuple[int, ...] = ()
"""What the engine refuses, though plain PyTorch trains it, with a reason that `refusals.py` lists."""
