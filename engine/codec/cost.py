"""What codecs cost on this machine: nanoseconds of one core for each element that is encoded, and decoded and added.

    python -m engine.codec.cost     # JSON: by codec, with default options, [encode, decode]

Slices of 131,072 normally distributed elements in float32, from memory (4 MiB of them); what keeps a residual is
measured with it. The best of two rounds after one that is not counted, in time of the processor: what others do at the
same time is not in it but for the caches. Of what is as it is there is nothing to measure: it costs nothing here.
"""

from __future__ import annotations

import json
import time

import torch

from engine.allocator import keep_freed_memory
from engine.axes.codec import CODEC
from engine.codec.trial import Slices, Trial
from engine.plan.encoding import encoding

_COUNT = 2**17
_TOTAL_BYTES = 2**22
_ROUNDS = 2


def measure() -> dict[str, tuple[float, float]]:
    """By codec: nanoseconds for each element that is encoded, and for each that is decoded and added."""
    torch.set_num_threads(1)
    keep_freed_memory()
    slices = Slices.of(_COUNT, _TOTAL_BYTES)
    found = {}
    for row in CODEC:
        if not row.available or "as-is" in row.traits:
            continue
        trial = Trial(encoding(row.name), slices, time.process_time)
        trial.round()
        for rates in trial.rates.values():
            rates.clear()
        for _ in range(_ROUNDS):
            trial.round()
        best = {work: max(rates) for work, rates in trial.rates.items()}
        found[row.name] = (_ns_per_element(best["encode"]), _ns_per_element(best["decode and add"]))
    return found


def _ns_per_element(gigabytes_per_s: float) -> float:
    return 4 / gigabytes_per_s


if __name__ == "__main__":
    print(json.dumps({name: [round(ns, 4) for ns in costs] for name, costs in measure().items()}))
