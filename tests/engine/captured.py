"""How the tests of capture run a pass."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from engine.state.capture import LinearCapture


def run(capture: LinearCapture | None, loss: Callable[[], Tensor]) -> None:
    """One pass, as a replica runs it: the loss is computed, then its backward pass is the step's own."""
    total = loss()
    if capture is not None:
        capture.begin_backward()
    total.backward()  # type: ignore[no-untyped-call]
    if capture is not None:
        capture.end_backward()
