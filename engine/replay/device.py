"""The replay device: a model that waits as long as its profile says, and hands out real gradients.

The module tree has the description's paths and parameter names, so plans, hooks and wrappers see the model that it
stands for. Each layer is an autograd function: forward waits the layer's time, backward waits its time and then hands
out a dense gradient for each parameter. A scalar carries the chain from layer to layer in place of activations.

What is learned is a bowl: worker r minimizes c_r / 2 * |p|^2 for every parameter p, with the gradient c_r * p that
costs one pass over p (inside the layer's time). It differs from worker to worker, so that a gradient that is lost,
summed twice or mixed up shows in the parameters.

Waiting is sleeping: it leaves the processor to the transport, as a busy GPU does. A sleep never ends early and mostly
ends a little late; what it was late, the next layers are shorter (`Pace`), so that sums are right.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import Parameter

from engine.inputs.task import BatchLoss
from engine.plan.description import LayerDescription, ModelDescription
from engine.profile import LayerTime, Profile

CURVATURE = 1e-3
"""c of worker 0. Small, so that parameters stay far from numbers that processors are slow with."""


class Pace:
    """The replayed device's clock. One training thread's.

    A GPU runs behind its host, which has issued the next layers already: what the host does between two layers
    (hooks, cutting, sending) costs the device nothing while it is shorter than they are. So a layer begins where the
    one before it ended on the device, not when the host comes to it. Only a version that has not arrived makes the
    device idle, and the beginning of a pass. A processor that computes itself does one after the other.
    """

    def __init__(
        self,
        exposed_ns: Callable[[], int] = lambda: 0,
        *,
        host_ahead: bool = True,
        longer: Callable[[float], float] = lambda seconds: seconds,
    ) -> None:
        """`exposed_ns`: how long the step has waited for parameters so far. `host_ahead`: whether the device computes
        beside its host. `longer(seconds)`: how long a straggler takes for what takes so long."""
        self.behind_ns = 0
        """How much later than on the device the last layer ended here; later layers make up for it."""
        self.worst_ns = 0
        """The most that it ever was."""
        self._exposed_ns = exposed_ns
        self._host_ahead = host_ahead
        self._longer = longer
        self._waited_ns = 0
        self._ended_ns: int | None = None

    def begin(self) -> None:
        """A forward pass begins: what the host did before it counts. A device that was behind may have waited at the
        step's end since (for `ddp`'s collectives): making up for it here would take that time off twice."""
        self._ended_ns, self.behind_ns = None, 0

    @contextmanager
    def lasting(self, seconds: float) -> Iterator[None]:
        """The block, and then a wait until `seconds` (of a straggler: more) have passed since the layer before it ended
        on the device."""
        start_ns = time.monotonic_ns()
        waited_ns = self._exposed_ns()
        if waited_ns < self._waited_ns:  # another step
            self._waited_ns = 0
        if waited_ns > self._waited_ns:
            self.behind_ns = 0  # the device has waited, too, and begins as soon as the host does
        elif self._host_ahead and self._ended_ns is not None:
            self.behind_ns += start_ns - self._ended_ns
        self._waited_ns = waited_ns
        end_ns = start_ns + round(self._longer(seconds) * 1e9) - self.behind_ns
        yield
        left_ns = end_ns - time.monotonic_ns()
        if left_ns > 0:
            time.sleep(left_ns / 1e9)
        self._ended_ns = time.monotonic_ns()
        self.behind_ns = max(0, self._ended_ns - end_ns)
        self.worst_ns = max(self.worst_ns, self.behind_ns)


class Node(nn.Module):
    """One path of the replayed model; a layer where it has parameters. Own names begin with `_replay`, because the
    names of parameters and children are the described model's."""

    def __init__(self) -> None:
        super().__init__()
        self._replay_time = LayerTime(layer="", forward_s=0.0, backward_s=0.0)
        self._replay_pace = Pace()
        self._replay_curvature = 0.0
        self._replay_capture: Callable[[int, float], None] | None = None
        """Of a layer that travels by factors (`capture.py`): told of every backward pass, with its samples and
        what its gradient is as a multiple of the parameters."""

    def forward(self, flow: Tensor, samples: int) -> Tensor:
        """`flow`: the scalar that came from the layer before; answers the one for the layer behind."""
        return self._replay_layer(flow, samples)

    def _replay_multiplying(self, samples: float) -> AbstractContextManager[None]:
        """Around the late multiplication of so many samples' factors."""
        return self._replay_pace.lasting(self._replay_time.product_s * samples)

    def _replay_layer(self, flow: Tensor, samples: int) -> Tensor:
        backward_s, passed = self._replay_time.backward_s, None
        if self._replay_capture is not None:
            backward_s -= self._replay_time.product_s
            passed = partial(self._replay_capture, samples)
        with self._replay_pace.lasting(self._replay_time.forward_s * samples):
            # Torch functions here, where a watching UseFinder sees that the module uses all its parameters.
            values = [p.detach() for p in self.parameters(recurse=False)]
            height = values[0].view(-1)[:1].abs().square().sum() if values else torch.zeros(())
            result: Tensor = _Replay.apply(
                flow + self._replay_curvature / 2 * height.to(flow.dtype),
                self._replay_pace,
                backward_s * samples,
                self._replay_curvature,
                passed,
                *self.parameters(recurse=False),
            )
        return result


class ReplayModel(Node):
    """The whole model: calls its layers in forward order."""

    def __init__(
        self, model: ModelDescription, profile: Profile, pace: Pace, rank: int, workers: int
    ) -> None:
        """`model`: with the sizes that its tensors shall have. `rank` of `workers` sets the curvature."""
        super().__init__()
        times = {each.layer: each for each in profile.layers}
        self._replay_pace = pace
        self._replay_profile = profile
        self._replay_order = [layer.name for layer in model.layers]
        for layer in model.layers:
            node = self._replay_node(layer.name)
            _own(node, layer)
            node._replay_time = times[layer.name]
            node._replay_pace = pace
            node._replay_curvature = CURVATURE * (1 + rank / workers)

    def forward(self, inputs: Tensor) -> Tensor:  # type: ignore[override]
        """`inputs` (samples, ...), of which only the number counts; answers a scalar, the loss of each sample."""
        samples = len(inputs)
        self._replay_pace.begin()
        flow = torch.zeros((), requires_grad=True)
        with self._replay_pace.lasting(self._replay_profile.before_s * samples):
            flow = _Replay.apply(flow, self._replay_pace, self._replay_profile.after_s * samples, 0.0, None)
        return self._replay_layers(flow, samples)

    def _replay_layers(self, flow: Tensor, samples: int) -> Tensor:
        for name in self._replay_order:
            # The root is running already: to call it again would be to begin the pass again.
            flow = self.get_submodule(name)(flow, samples) if name else self._replay_layer(flow, samples)
        return flow

    def _replay_node(self, path: str) -> Node:
        node: Node = self
        for name in path.split(".") if path else ():
            if name not in node._modules:
                node.add_module(name, Node())
            child = node._modules[name]
            assert isinstance(child, Node)
            node = child
        return node


class ReplaySource:
    """Samples of which only the number is known: a rehearsal looks at no data."""

    def __init__(self, samples: int) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return self._samples

    def batch(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """See Source.batch: inputs (n, 1), targets (n)."""
        return torch.zeros(len(indices), 1), torch.zeros(len(indices))


def replay_task(model: nn.Module, inputs: Tensor, targets: Tensor) -> BatchLoss:
    """The sum of the samples' losses, which are all alike: a glimpse of the bowl, the first element of each layer."""
    return BatchLoss(model(inputs) * len(targets), None)


class _Replay(torch.autograd.Function):
    """(flow, pace, seconds, curvature, passed, *parameters) -> flow, whose backward pass lasts `seconds` and then hands
    out gradients, or tells `passed`."""

    @staticmethod
    def forward(
        ctx: Any,
        flow: Tensor,
        pace: Pace,
        seconds: float,
        curvature: float,
        passed: Callable[[float], None] | None,
        *parameters: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(*parameters)  # autograd objects, as ever, if they change before backward
        ctx.replay = pace, seconds, curvature, passed
        return flow.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, flow: Tensor) -> tuple[Tensor | None, ...]:
        """`flow`: the pass's share of the step's loss, so that gradients are weighted as real ones are."""
        pace, seconds, curvature, passed = ctx.replay
        with pace.lasting(seconds):
            factor = curvature * float(flow)
            gradients = [
                torch.mul(p, factor) if wanted and passed is None else None
                for p, wanted in zip(ctx.saved_tensors, ctx.needs_input_grad[5:], strict=True)
            ]
        if passed is not None:
            passed(factor)
        return (flow, None, None, None, None, *gradients)


def _own(node: Node, layer: LayerDescription) -> None:
    """Give the node the layer's parameters: the same values every time, different everywhere."""
    for described in layer.parameters:
        values = torch.linspace(-1, 1, described.count, dtype=getattr(torch, described.dtype))
        parameter = Parameter(values.view(described.shape), requires_grad=described.trainable)
        node.register_parameter(described.name.rpartition(".")[2], parameter)
