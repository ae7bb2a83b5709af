"""By which names a checkpoint's parts have their tensors and texts."""

PARAMETER, BUFFER, OPTIMIZER, OTHER = "parameter", "buffer", "optimizer", "other"
OUTER, RANDOM = "outer", "random"
"""What names of tensors in a worker's part begin with."""
DONE, MODEL, STATE = "done", "model", "state"
"""Names of its texts: how far training has come, `model_state.described`, and the first of `places_of_state`."""


def exchange(position: int) -> str:
    """What names begin with of one of a worker's exchanges, in the order of `Held.distinct`."""
    return f"exchange-{position}"
