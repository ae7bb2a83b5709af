"""What the fork server imports, once for all processes of a gang, before it forks any. It starts no thread and asks no
device for anything: CUDA cannot be used in a process forked from one that has.

Whatever a process would import later, each would import for itself: `torch._dynamo`, which no job uses but which the
first optimizer loads, costs more than a second of computing.
"""

# ruff: noqa: F401 - the imports are the purpose, and they are to come between these two lines

from __future__ import annotations

import gc

gc.disable()  # nothing of what follows is garbage
try:
    import torch._dynamo
    from torch.nn import Parameter

    from engine.axes.consistency import CONSISTENCY
    from engine.gang import process
    from engine.instrumentation.unwatched import why_unwatched
    from engine.runtime import devices, servers, worker

    for mode in CONSISTENCY:  # each worker reads its plan with all of them
        if mode.available:
            mode.load()
    why_unwatched(Parameter)  # reads the modules that are here: each worker would, for a sixth of a second
finally:  # the fork server goes on without what cannot be imported
    gc.freeze()  # nor will it be: collectors of the forked processes leave it alone, and its pages shared
    gc.enable()
