"""Seventy networks, always the same, which together have all that the grammar draws (`cover.py` has chosen them).

A number is another network after a change of the grammar, or of hypothesis. Then `test_fixed.py` says what is missing,
and this is what to do: `make fuzz SEED=15 N=1500 ARGS="--keep FOLDER"`, and `python -m tests.fuzz.cover
FOLDER/campaign_15.jsonl`, which prints these lines anew.
"""

from __future__ import annotations

SEED = 15
TRAINED = (
    19, 48, 53, 65, 72, 108, 112, 113, 115, 132, 198, 203, 268, 271, 274, 294, 343, 357, 385, 403, 404,
    413, 455, 462, 499, 501, 518, 525, 534, 547, 562, 564, 577, 581, 608, 625, 636, 691, 700, 720, 729,
    738, 742, 824, 1006, 1009, 1017, 1031, 1046, 1055, 1087, 1090, 1101, 1115, 1138, 1197, 1204, 1263,
    1268, 1296, 1305, 1326, 1329, 1362, 1381, 1468, 1488, 1490, 1493,
)  # fmt: skip
REFUSED = (345,)
"""What the engine refuses, though plain PyTorch trains it, with a reason that `refusals.py` lists."""
