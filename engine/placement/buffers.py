"""A module's buffers once for each worker, as if each had the module: batch statistics are local in training."""

from __future__ import annotations

from torch import Tensor, nn

from engine.coordination.buffers import average


class BuffersByRank:
    """Exchanges a module's buffers. What they held when this was made is everybody's first value."""

    def __init__(self, module: nn.Module, ranks: int) -> None:
        self._slots = [
            (owner, name, id(buffer))
            for owner in module.modules()
            for name, buffer in owner.named_buffers(recurse=False, remove_duplicate=False)
        ]
        """Where a buffer is registered; one that two modules share is there twice."""
        held = {id(buffer): buffer for buffer in module.buffers()}
        self._of_rank = [{key: b.detach().clone() for key, b in held.items()} for _ in range(ranks)]
        self._rank: int | None = None
        """Whose buffers the module has; None for the average."""

    def use(self, rank: int) -> None:
        """From now on the module reads and writes the buffers of `rank`."""
        self._put(rank, self._of_rank[rank])

    def use_average(self) -> None:
        """From now on it reads the average over all ranks; what it writes there is forgotten."""
        self._put(None, {})
        self._put(None, {key: average([mine[key] for mine in self._of_rank]) for key in self._of_rank[0]})

    def _put(self, rank: int | None, values: dict[int, Tensor]) -> None:
        if self._rank is not None:  # a forward pass may have put another tensor in a buffer's place
            for owner, name, key in self._slots:
                kept = owner._buffers[name]
                assert kept is not None, f"{name} is a buffer no more"
                self._of_rank[self._rank][key] = kept
        self._rank = rank
        for owner, name, key in self._slots:
            if key in values:
                owner._buffers[name] = values[key]
