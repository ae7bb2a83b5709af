"""Sixty networks, always the same, which together have everything that the grammar draws (`cover.py` has chosen them).

A number is another network after a change of the grammar, or of hypothesis. Then `test_sixty.py` says what is missing,
and this is what to do: `make fuzz SEED=15 N=900 ARGS="--keep FOLDER"`, and `python -m tests.fuzz.cover
FOLDER/campaign_15.jsonl`, which prints these lines anew.
"""

from __future__ import annotations

SEED = 15
TRAINED = (
    8, 37, 45, 60, 70, 71, 107, 120, 132, 140, 158, 168, 169, 185, 195, 198, 220, 242, 243, 249, 250, 261,
    268, 275, 311, 318, 325, 358, 373, 374, 375, 385, 396, 403, 404, 421, 458, 479, 483, 495, 499, 517,
    518, 525, 547, 554, 558, 564, 588, 607, 614, 637, 673, 680, 688, 713, 1490,
)  # fmt: skip
REFUSED = (38, 49, 582)
"""What the engine refuses, though plain PyTorch trains it, with a reason that `refusals.py` lists."""
