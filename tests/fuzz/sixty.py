"""Sixty networks, always the same, which together have everything that the grammar draws (`cover.py` has chosen them).

A number is another network after a change of the grammar, or of hypothesis. Then `test_sixty.py` says what is missing,
and this is what to do: `make fuzz SEED=15 N=900 ARGS="--keep FOLDER"`, and `python -m tests.fuzz.cover
FOLDER/campaign_15.jsonl`, which prints these lines anew. (Number 3983 was looked for: few networks have parameters of
bfloat16 among others.)
"""

from __future__ import annotations

SEED = 15
TRAINED = (
    8, 37, 98, 115, 121, 125, 132, 148, 158, 169, 180, 195, 198, 213, 220, 235, 250, 261, 268, 275, 298,
    311, 313, 321, 324, 353, 358, 373, 374, 385, 387, 401, 404, 412, 445, 448, 464, 479, 495, 499, 501, 517,
    518, 525, 547, 554, 609, 612, 626, 636, 641, 701, 714, 717, 738, 741, 814, 3983,
)  # fmt: skip
REFUSED = (345, 739)
"""What the engine refuses, though plain PyTorch trains it, with a reason that `refusals.py` lists."""
