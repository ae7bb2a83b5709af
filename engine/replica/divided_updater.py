"""Updates of parameters that fully_shard divides over workers: what is saved, and gone on from, is this worker's part
of what the optimizer keeps."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor
from torch.distributed.tensor import DTensor, Shard

from engine.plan.optimizers import SCALAR_STATE
from engine.state.updates import Updater


class DividedUpdater(Updater):
    """An updater whose parameters are parts; they are, between two steps."""

    def state(self) -> dict[str, Tensor]:
        """Views of this worker's parts, by parameter and slot."""
        found = super().state()
        return {name: held.to_local() if isinstance(held, DTensor) else held for name, held in found.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state()` of the same worker, or from the whole of it."""
        found = {}
        for full, held in state.items():
            name, _, slot = full.rpartition("/")
            parameter = self._parameters[name]
            divided = slot not in SCALAR_STATE and isinstance(parameter, DTensor)
            found[full] = _part(held, parameter) if divided else held
        super().load(found)


def _part(value: Tensor, parameter: Tensor) -> DTensor:
    """`value`, the whole or this worker's part, divided as the parameter is: along its first dimension."""
    assert isinstance(parameter, DTensor)
    mesh, placements = parameter.device_mesh, parameter.placements
    assert placements == (Shard(0),), placements
    if value.shape == parameter.shape:
        parts, rank = value.chunk(mesh.size()), mesh.get_local_rank()
        value = parts[rank] if rank < len(parts) else value[:0]
    part = value.to(parameter.device).contiguous()
    return DTensor.from_local(
        part, mesh, placements, run_check=False, shape=parameter.shape, stride=parameter.stride()
    )
