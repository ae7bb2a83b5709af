"""What PyTorch refuses in the middle of a step, where the user's own code is not to blame alone: said with a remedy."""

from __future__ import annotations

from traceback import StackSummary, extract_tb

from engine.errors import TrainingError
from engine.user_code import what

_SHARDED = ("/torch/distributed/fsdp/", "/torch/distributed/tensor/")
_PARTS = (
    "mixed torch.Tensor and DTensor",
    "not supported for tensor subclasses",
    "Cannot access data pointer of Tensor",
    "appears to not have been used in the graph",
    "storage of size 0",
)
"""What PyTorch says to who computes with a part of a parameter as if it were the whole, differentiates by it, takes its
memory, or needs a whole one that was freed."""
_TWICE = "Expected to mark a variable ready only once"
"""What DDP says where a parameter's gradient is final a second time."""
_NETWORK = ("gloo", "NCCL", "Connection")
"""What an error says where a peer has gone, which is not its cause."""
_LATE = "Timed out waiting"
"""What Gloo says where another worker, which is there, does not take part in a collective."""
_ENGINE = "_engine_run_backward"
"""What runs a backward pass."""
_BACKWARD = (_ENGINE, "unmoved", "all_unmoved")
"""What raises where a backward pass cannot be gone: PyTorch, and for it whoever keeps what it has saved
(`engine/memory/saving.py`)."""
_COMPILED = "/torch/_functorch/"
"""Where what torch.compile has compiled takes what it has saved."""


def refused_by_pytorch(error: Exception, step: int, *, sharded: bool) -> TrainingError | None:
    """What to say of an error in `step` that came from inside of PyTorch; None for any other. Its traceback is that of
    the error, so that it shows the user's own line. `sharded`: parameters are in parts."""
    frames = extract_tb(error.__traceback__)
    if "gloo" in str(error) and _LATE in str(error):
        return TrainingError(
            f"a worker waited in step {step} until the deadline for another one, which is there: it is stuck, or"
            " workers called different collectives of PyTorch, as where forward calls other layers on some of them,"
            " or takes parameters that `fsdp` holds in parts. Do the same on every worker for every batch, or choose"
            " another strategy, which sums what each worker has"
        ).with_traceback(error.__traceback__)
    if not frames or any(word in str(error) for word in _NETWORK):
        return None
    said = what(error).rstrip(".")
    inside = any(folder in frame.filename for frame in frames for folder in _SHARDED)
    if inside or (sharded and any(words in str(error) for words in _PARTS)):
        message = (
            f"`fsdp` cannot train this model, step {step}: {said}. It holds a part of each parameter, and the"
            " whole only while the module that owns it is called: call the model as a whole, use parameters in their"
            " own module only, or choose ddp or another strategy"
        )
    elif _TWICE in str(error):
        message = (
            f"`ddp` cannot train this model, step {step}: a parameter's gradient came twice in one backward pass, as"
            " reentrant checkpointing of layers brings it about. Call checkpoint with use_reentrant=False, or choose"
            " another strategy"
        )
    elif _in_backward(frames):
        message = (
            f"PyTorch could not go backward through step {step}: {said}. Call the model and its loss in a plain"
            " loop under torch.autograd.set_detect_anomaly(True), which names the line of forward that is meant"
        )
    elif "/torch/optim/" in frames[-1].filename:
        message = (
            f"PyTorch's optimizer could not update the parameters in step {step}: {said}. Choose another"
            " optimizer, or give it parameters that it can update"
        )
    else:
        return None
    return TrainingError(message).with_traceback(error.__traceback__)


def _in_backward(frames: StackSummary) -> bool:
    """Whether PyTorch itself raises in a backward pass, for what is compiled as well."""
    compiled = _COMPILED in frames[-1].filename and any(frame.name == _ENGINE for frame in frames)
    return compiled or frames[-1].name in _BACKWARD
