"""What PyTorch refuses in the middle of a step, where the user's own code is not to blame alone: said with a remedy."""

from __future__ import annotations

from traceback import extract_tb

from engine.errors import TrainingError
from engine.user_code import what

_SHARDED = ("/torch/distributed/fsdp/", "/torch/distributed/tensor/")
_NETWORK = ("gloo", "NCCL", "Connection")
"""What an error says where a peer has gone, which is not its cause."""


def refused_by_pytorch(error: Exception, step: int) -> TrainingError | None:
    """What to say of an error in `step` that came from inside of PyTorch; None for any other. Its traceback is that of
    the error, so that it shows the user's own line."""
    frames = extract_tb(error.__traceback__)
    if not frames or any(word in str(error) for word in _NETWORK):
        return None
    inside = any(folder in frame.filename for frame in frames for folder in _SHARDED)
    if inside or "mixed torch.Tensor and DTensor" in str(error):
        message = (
            f"`fsdp` cannot train this model, step {step}: {what(error)}. It holds a part of each parameter, and the"
            " whole only while the module that owns it is called: call the model as a whole, use parameters in their"
            " own module only, or choose ddp or another strategy"
        )
    elif frames[-1].name == "_engine_run_backward":
        message = (
            f"PyTorch could not go backward through step {step}: {what(error)}. Call the model and its loss in a plain"
            " loop under torch.autograd.set_detect_anomaly(True), which names the line of forward that is meant"
        )
    else:
        return None
    return TrainingError(message).with_traceback(error.__traceback__)
