"""Which parameters have a gradient under fully_shard, which sums zeros where a worker has none: what no worker has a
gradient of is to be left alone, decay and momentum included.

It is seen at the gathered parameters, where autograd leaves its gradients, once for each in a backward pass. Where one
comes twice, the first has been summed and scattered in the meantime.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from torch import Tensor
from torch.nn import Parameter

from engine.errors import TrainingError


class ShardedGradients:
    """What came in a step, of each worker."""

    def __init__(self, names: Iterable[str]) -> None:
        """`names`: of what is trained, alike on every worker."""
        self._index = {name: number for number, name in enumerate(names)}
        self._here = bytearray(len(self._index))
        """For each parameter, whether this worker had a gradient in any pass of the step."""
        self._passed: set[str] = set()
        """Those that came in this backward pass."""

    def note(self, name: str, gathered: Parameter) -> None:
        """From now on notice the gradients of `gathered`, which is `name` where the whole of it is there."""
        gathered.register_post_accumulate_grad_hook(partial(self._came, name))

    def begin_backward(self) -> None:
        self._passed.clear()

    def take(self) -> bytes:
        """What this worker had in the step, which is over."""
        found = bytes(self._here)
        self._here = bytearray(len(self._index))
        return found

    def absent(self, everyone: Tensor) -> list[str]:
        """What nobody had, by what each worker took: (workers, parameters)."""
        had = everyone.any(0).tolist()
        return [name for name, number in self._index.items() if not had[number]]

    def _came(self, name: str, gathered: Tensor) -> None:
        if name in self._passed:
            raise TrainingError(
                f"the gradient of {name} came in several parts, the second after `fsdp` had summed the first:"
                " reentrant checkpointing does so with layers that are used more than once. Call checkpoint with"
                " use_reentrant=False"
            )
        self._passed.add(name)
        self._here[self._index[name]] = 1
