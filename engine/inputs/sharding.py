"""How an epoch's samples are dealt to steps, workers and micro-batches: none lost, none repeated. NumPy only.

All workers compute the same order from (samples, seed, epoch) and each takes its own part, so nothing has to
be agreed on at run time. A step's samples are the same for every number of workers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.plan.length import steps_per_epoch


def epoch_order(samples: int, seed: int, epoch: int) -> np.ndarray:
    """A permutation (samples,) int64 that depends on nothing but its arguments."""
    return np.random.Generator(np.random.PCG64([seed, epoch])).permutation(samples)


def global_batches(samples: int, global_batch: int, seed: int, epoch: int) -> Iterator[np.ndarray]:
    """The epoch's global batches in order: `global_batch` indices each, the last one holds what is left."""
    order = epoch_order(samples, seed, epoch)
    for start in range(0, samples, global_batch):
        yield order[start : start + global_batch]


def global_batch_at(step: int, samples: int, global_batch: int, seed: int) -> np.ndarray:
    """The global batch of `step` (from 0, counted over all epochs), without those before it.

    Costs a permutation per call; `global_batches` is the cheap way through a whole epoch.
    """
    epoch, within = divmod(step, steps_per_epoch(samples, global_batch))
    return epoch_order(samples, seed, epoch)[within * global_batch : (within + 1) * global_batch]


def shard(indices: np.ndarray, rank: int, workers: int) -> np.ndarray:
    """Worker `rank`'s contiguous part; sizes differ by at most one, the first workers take the larger ones.

    Empty for the last workers where there are fewer indices than workers.
    """
    if not 0 <= rank < workers:
        raise ValueError(f"rank {rank} of {workers} workers: ranks count from 0 to workers - 1")
    share, rest = divmod(len(indices), workers)
    start = rank * share + min(rank, rest)
    return indices[start : start + share + (rank < rest)]


def micro_batches(indices: np.ndarray, count: int) -> list[np.ndarray]:
    """A worker's part cut into `count` contiguous micro-batches, split as `shard` splits; some may be empty.

    Always `count` of them, so that every worker runs the same number of passes.
    """
    return [shard(indices, i, count) for i in range(count)]
