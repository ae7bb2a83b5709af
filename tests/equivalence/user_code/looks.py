"""A user's models that look at their gradients before these have left, by hooks, in threads and between micro-batches,
or keep them; and one that pickles a part of itself."""

from __future__ import annotations

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts


class Body(nn.Module):
    """Three layers, and a count of calls."""

    def __init__(self, width: int = 20) -> None:
        super().__init__()
        self.first = nn.Linear(64, width)
        self.middle = nn.Linear(width, width)
        self.last = nn.Linear(width, 10)
        self.calls = -1
        self.box: dict[str, Any] = {}

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.run(x.flatten(1))

    def run(self, x: Tensor) -> Tensor:
        return self.plain(x)

    def plain(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(x))
        if hidden.requires_grad:
            hidden.register_hook(self.at_hidden)
        logits: Tensor = self.last(torch.tanh(self.middle(hidden)))
        return logits

    def at_hidden(self, gradient: Tensor) -> Tensor | None:
        """Called in backward, when the gradients of the last two layers are final."""
        return None


def _steep(gradient: Tensor | None) -> float:
    return 0.0 if gradient is None else float(torch.tanh(gradient.sum()))


def _scale(parameter: Tensor) -> None:
    assert parameter.grad is not None
    parameter.grad.mul_(1 + 0.3 * _steep(parameter.grad))


class Hook(Body):
    """Looks at a gradient in the backward pass of the second call of three."""

    def at_hidden(self, gradient: Tensor) -> Tensor | None:
        return gradient * (1 + 0.3 * _steep(self.middle.weight.grad)) if self.calls % 3 == 1 else None


class LateHook(Body):
    """Hooks a weight in the second call of two: the hook finds what the first one has left."""

    def run(self, x: Tensor) -> Tensor:
        if self.calls % 2:
            self.box["handle"] = self.middle.weight.register_post_accumulate_grad_hook(_scale)
        elif "handle" in self.box:
            self.box.pop("handle").remove()
        return self.plain(x)


class Keeps(Body):
    """Keeps the gradient of the first call of three, and uses it in the third: to it PyTorch adds in place."""

    def run(self, x: Tensor) -> Tensor:
        factor = 1.0
        if self.calls % 3 == 1:
            self.box["kept"] = self.middle.weight.grad
        elif self.calls % 3 == 2:
            factor += 0.5 * _steep(self.box["kept"])
        return self.plain(x) * factor


class Threads(Body):
    """Four threads look at once at a gradient that takes long to multiply."""

    def __init__(self) -> None:
        super().__init__(500)

    def run(self, x: Tensor) -> Tensor:
        if self.calls % 2 == 0:
            return self.plain(x)
        barrier = threading.Barrier(4)

        def look(_: int) -> float:
            barrier.wait()
            return _steep(self.middle.weight.grad)

        with ThreadPoolExecutor(4) as pool:
            return self.plain(x) * (1 + 0.1 * sum(pool.map(look, range(4))))


class Selective(Body):
    """Looks in a region whose products selective checkpointing keeps."""

    def run(self, x: Tensor) -> Tensor:
        def policy(_: Any, operation: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
            products = torch.ops.aten.mm.default, torch.ops.aten.addmm.default
            return CheckpointPolicy.MUST_SAVE if operation in products else CheckpointPolicy.PREFER_RECOMPUTE

        def region(h: Tensor) -> Tensor:
            gradient = self.middle.weight.grad
            factor = 1.0 if gradient is None else 1 + 0.1 * torch.tanh(gradient.detach().sum())
            return torch.tanh(functional.linear(h, self.middle.weight + 0) * factor)

        contexts = partial(create_selective_checkpoint_contexts, policy)
        hidden = self.middle(torch.tanh(self.first(x)))
        logits: Tensor = self.last(checkpoint(region, hidden, use_reentrant=False, context_fn=contexts))
        return logits


class Copies(Body):
    """Copies a layer, and makes parameters of one, between two calls: those are ordinary ones."""

    def run(self, x: Tensor) -> Tensor:
        factor = torch.ones((), dtype=x.dtype)
        if self.calls == 1:
            weight = self.middle.weight
            self.box["copies"] = [
                copy.deepcopy(self.middle).weight,
                type(weight)(weight.detach().clone()),
                nn.Parameter(weight),
                nn.Parameter(weight.detach().clone()),
            ]
        for made in self.box.get("copies", ()):
            assert made.grad is None
            factor = factor + 0.01 * torch.tanh((made + 0).detach().sum())
        return self.plain(x) * factor


class Held(Body):
    """Keeps a gradient in a hook, and reads it, or writes to it, later in the same backward pass and after it."""

    def __init__(self, writes: bool) -> None:
        super().__init__()
        self.writes = writes

    def run(self, x: Tensor) -> Tensor:
        if self.calls == 1:
            hook = lambda p: self.box.update(kept=p.grad)  # noqa: E731
            self.middle.weight.register_post_accumulate_grad_hook(hook)
        return self.plain(x)

    def at_hidden(self, gradient: Tensor) -> Tensor | None:
        if "kept" not in self.box:
            return None
        threading.Event().wait(0.05)  # others' parts come in
        if self.writes:
            self.box["kept"].mul_(0.5)
            return None
        return gradient * (1 + _steep(self.box["kept"]))


class HeldOn(Held):
    """Uses it in the next call, too, before any layer."""

    def run(self, x: Tensor) -> Tensor:
        factor = 1 + 0.1 * _steep(self.box.get("kept"))
        return super().run(x) * factor


class Swallows(Body):
    """Looks at a gradient that has left, and goes on where that is refused."""

    def at_hidden(self, gradient: Tensor) -> Tensor | None:
        try:
            return gradient * (1 + _steep(self.last.weight.grad))
        except Exception:
            return gradient


class Pickles(Body):
    """Pickles a layer of its own in forward."""

    def run(self, x: Tensor) -> Tensor:
        again = pickle.loads(pickle.dumps(self.last))
        return self.plain(x) * (1 + 0.1 * again.weight.detach().sum())


class Scales(Body):
    """Writes to a gradient that is final, from a hook of a value before it."""

    def at_hidden(self, gradient: Tensor) -> Tensor | None:
        _scale(self.middle.weight)
        return None


class Replaces(Body):
    """Puts another tensor in a final gradient's place."""

    def at_hidden(self, gradient: Tensor) -> Tensor | None:
        assert self.last.weight.grad is not None
        self.last.weight.grad = self.last.weight.grad.sign()
        return None


class AtTheEnd(Body):
    """Clips all gradients when backward ends."""

    def at_hidden(self, gradient: Tensor) -> Tensor | None:
        clip = partial(nn.utils.clip_grad_norm_, list(self.parameters()), 0.05)
        torch.autograd.Variable._execution_engine.queue_callback(clip)
        return None


WAYS = {
    "hook": Hook,
    "late hook": LateHook,
    "keeps": Keeps,
    "threads": Threads,
    "selective": Selective,
    "copies": Copies,
    "pickles": Pickles,
    "swallows": Swallows,
    "scales": Scales,
    "replaces": Replaces,
    "at the end": AtTheEnd,
}


def looks(how: str) -> nn.Module:
    return WAYS[how]()


def held(writes: bool = False, on: bool = False) -> nn.Module:
    return HeldOn(writes) if on else Held(writes)
