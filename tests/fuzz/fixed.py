"""Seventy-six networks, always the same, which together have all that the grammar draws (`cover.py` has chosen them).

A number is another network after a change of the grammar, or of hypothesis. Then `test_fixed.py` says what is missing,
and this is what to do: `make fuzz SEED=15 N=2000 ARGS="--keep FOLDER"`, and `python -m tests.fuzz.cover
FOLDER/campaign_15.jsonl`, which prints these lines anew.
"""

from __future__ import annotations

SEED = 15
TRAINED = (
    5, 20, 53, 67, 115, 120, 121, 158, 198, 217, 220, 223, 249, 311, 358, 373, 403, 404, 462, 488,
    495, 499, 518, 536, 547, 581, 634, 705, 714, 720, 739, 774, 779, 814, 826, 896, 938, 942, 964,
    986, 1054, 1055, 1090, 1101, 1115, 1130, 1182, 1281, 1305, 1315, 1326, 1352, 1477, 1488, 1490, 1493,
    1599, 1663, 1667, 1697, 1737, 1740, 1753, 1764, 1793, 1838, 1928, 1971, 1985, 1993, 2009, 2023, 2576, 3561,
)  # fmt: skip
REFUSED = (38, 1015)
"""What the engine refuses, though plain PyTorch trains it, with a reason that `refusals.py` lists."""
