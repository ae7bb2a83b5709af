"""The reference: a plain PyTorch loop that trains a user's file as several workers would, one after another.

It knows the job's own words and nothing of the engine. Every worker has a model and an optimizer of its own, built from
the same seed, as one PyTorch process each would have; after each step their gradients are summed. What the loop has to
know besides is what the documents say of a job: how samples are dealt out, that losses are sums over the global batch's
weight, that buffers are each worker's own and are averaged for evaluations and in the result.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import default_collate

IGNORED = -100
OPTIMIZERS = {
    "sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "adamax": torch.optim.Adamax,
    "nadam": torch.optim.NAdam, "radam": torch.optim.RAdam, "rmsprop": torch.optim.RMSprop,
    "adagrad": torch.optim.Adagrad, "adadelta": torch.optim.Adadelta, "adafactor": torch.optim.Adafactor,
}  # fmt: skip
SCHEDULES = {
    "step": ("StepLR", None), "multi-step": ("MultiStepLR", None), "exponential": ("ExponentialLR", None),
    "cosine": ("CosineAnnealingLR", "T_max"), "linear": ("LinearLR", "total_iters"),
    "one-cycle": ("OneCycleLR", "total_steps"), "polynomial": ("PolynomialLR", "total_iters"),
}  # fmt: skip
"""Name -> (class of torch.optim.lr_scheduler, its option that is the job's length)."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What training came to."""

    state: dict[str, Tensor]
    """Parameters of the first worker, buffers averaged over all."""
    start: dict[str, Tensor]
    """What they were before training."""
    test_loss: float | None
    test_accuracy: float | None
    apart: str | None
    """A parameter that the workers did not agree on after some step, because forward wrote to it, or that a step read
    as an evaluation had left it, which was not alike; None where they always agreed."""
    gradients: list[list[dict[str, Tensor]]] = field(default_factory=list)
    """Of every worker, step by step."""


class Worker:
    """One worker's model, optimizer, schedule and random numbers."""

    def __init__(self, file: ModuleType, job: dict[str, Any], rank: int, steps: int) -> None:
        seed = job["training"]["seed"]
        _seed(seed)
        self.train_data, self.test_data = file.data()
        self.model: nn.Module = file.build()
        if job["training"]["precision"] == "float64":
            self.model = self.model.double()
        self.every = dict(self.model.named_parameters())
        self.averaged = {name for name, parameter in self.every.items() if parameter.requires_grad}
        """What is trained at the start."""
        self.optimizer = _optimizer(job["optimizer"], self.every)
        self.scheduler = _scheduler(self.optimizer, job["schedule"], steps)
        _seed(seed + 1 + rank)
        self._random = torch.get_rng_state()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Its own random numbers."""
        torch.set_rng_state(self._random)
        yield
        self._random = torch.get_rng_state()


def train(
    file: ModuleType,
    job: dict[str, Any],
    *,
    filler: bool = False,
    averaging: bool = False,
    backwards: bool = False,
    agreed: bool = False,
) -> Trained:
    """Train what `file` builds as `job` says.

    `filler`: a worker without samples passes one that does not count, as DDP and FSDP need it. `averaging`: in
    place of their gradients, workers sum up how far each of them has come by itself, by its share of the samples.
    `backwards`: sums run in the opposite order, and every gradient is rounded to a neighbouring number; in float64 the
    inputs are, too, which shows what a network makes of the last digit of what it computes. `agreed`: whatever an
    evaluation writes, all workers hold the first one's parameters afterwards.
    """
    training, workers = job["training"], job["cluster"]["workers"]
    samples = len(file.data()[0])
    per_epoch = -(-samples // training["global_batch"])
    steps = training.get("steps") or max(1, round(training["epochs"] * per_epoch))
    everyone = [Worker(file, job, rank, steps) for rank in range(workers)]
    common = {name: value.detach().clone() for name, value in everyone[0].every.items()}
    start = {name: value.detach().clone() for name, value in everyone[0].model.state_dict().items()}
    loss_of = _loss_of(file)
    every, evaluated, apart = job["evaluation"]["every_epochs"], -1, None
    left: str | None = None  # a parameter that an evaluation wrote to, and not alike
    gradients = []
    measured: tuple[float | None, float | None] = (None, None)
    for step in range(steps):
        epoch, within = divmod(step, per_epoch)
        order = np.random.Generator(np.random.PCG64([training["seed"], epoch])).permutation(samples)
        indices = order[within * training["global_batch"] : (within + 1) * training["global_batch"]]
        whole = _weight(_batch(everyone[0].train_data, indices)[1])
        parts = [_share(indices, rank, workers) for rank in range(workers)]
        weights = [_weight_of(everyone[0], part) if averaging else whole for part in parts]
        # By itself, a worker whose samples do not count has a loss of zero, by whatever that is divided.
        divisors = [weight or 1.0 for weight in weights] if averaging else weights
        found = [
            _gradients(worker, loss_of, part, indices, divisor, training, filler, backwards)
            for worker, part, divisor in zip(everyone, parts, divisors, strict=True)
        ]
        gradients.append(found)
        if averaging:
            shares = [weight / whole if whole else 0.0 for weight in weights]
            _average(everyone, found, shares, common, backwards)
        else:
            _update(everyone, _summed(found, backwards), training["clip_norm"])
        apart = apart or _apart(everyone)
        period = None if every is None else every * per_epoch
        if period is not None and int((step + 1) / period) > int(step / period):
            measured, evaluated = _evaluate(everyone, loss_of, training["precision"]), step
            left = left or _apart(everyone)
            if agreed:
                _agree(everyone)
    if job["evaluation"]["at_end"] and evaluated != steps - 1:
        measured = _evaluate(everyone, loss_of, training["precision"])
    first = everyone[0].model
    averaged = _averaged_buffers([worker.model for worker in everyone])
    state = {n: averaged.get(n, t.detach()).clone() for n, t in first.state_dict().items()}
    trained = Trained(
        state=state,
        start=start,
        test_loss=measured[0],
        test_accuracy=measured[1],
        apart=apart or _apart(everyone),
        gradients=gradients,
    )
    if agreed or left is None or trained.apart is not None:
        return trained
    # What an evaluation writes differently, and the next forward pass writes anew before it is read, as an Embedding's
    # `max_norm` does, is in no number: then all numbers are those of workers that agree after each evaluation.
    like = train(file, job, filler=filler, averaging=averaging, backwards=backwards, agreed=True)
    return trained if _numbers(trained) == _numbers(like) else replace(trained, apart=left)


def _gradients(
    worker: Worker,
    loss_of: Any,
    mine: np.ndarray,
    everybody: np.ndarray,
    divisor: float,
    training: dict[str, Any],
    filler: bool,
    backwards: bool,
) -> dict[str, Tensor]:
    """A worker's gradients of one step, by parameter; those that have none are left out."""
    for parameter in worker.every.values():
        parameter.grad = None
    with worker.at_work():
        for piece in (_share(mine, i, training["micro_batches"]) for i in range(training["micro_batches"])):
            if len(piece) == 0 and not filler:
                continue
            inputs, targets = _batch(worker.train_data, piece if len(piece) else everybody[:1])
            if backwards and training["precision"] == "float64":
                inputs = _mapped(inputs, lambda t: _neighbour(t.double()) if t.is_floating_point() else t)
            loss = _pass(worker.model, loss_of, inputs, targets, training["precision"])[0]
            (loss * ((1.0 if len(piece) else 0.0) / divisor)).backward()
    return {n: p.grad.detach().clone() for n, p in worker.every.items() if p.grad is not None}


def _summed(found: list[dict[str, Tensor]], backwards: bool) -> dict[str, Tensor]:
    """The sum over workers of every gradient that one of them has."""
    total: dict[str, Tensor] = {}
    for gradients in reversed(found) if backwards else found:
        for name, gradient in gradients.items():
            total[name] = total[name] + gradient if name in total else gradient.clone()
    return {name: _neighbour(gradient) for name, gradient in total.items()} if backwards else total


def _neighbour(values: Tensor) -> Tensor:
    """Every number's next one, upwards and downwards in turn; zeros stay."""
    if values.is_sparse:
        kept = values.coalesce()
        return torch.sparse_coo_tensor(kept.indices(), _neighbour(kept.values()), kept.shape)
    if values.is_complex():
        return torch.view_as_complex(_neighbour(torch.view_as_real(values).contiguous()))
    ways = torch.full((values.numel(),), torch.inf, dtype=values.dtype)
    ways[::2] = -torch.inf
    return torch.where(values == 0, values, torch.nextafter(values, ways.view(values.shape)))


def _update(everyone: list[Worker], total: dict[str, Tensor], clip: float | None) -> None:
    for worker in everyone:
        for name, parameter in worker.every.items():
            parameter.grad = total[name].clone() if name in total else None
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(worker.every.values(), clip)
        worker.optimizer.step()
        if worker.scheduler is not None:
            worker.scheduler.step()
        for parameter in worker.every.values():
            parameter.grad = None


def _average(
    everyone: list[Worker],
    found: list[dict[str, Tensor]],
    shares: list[float],
    common: dict[str, Tensor],
    backwards: bool,
) -> None:
    """Every worker steps by itself, with the mean of its own losses, from what it has made of the `common` parameters;
    what is trained becomes the mean, by `shares`, and is the next common one."""
    for worker, gradients in zip(everyone, found, strict=True):
        for name, parameter in worker.every.items():
            parameter.grad = gradients.get(name)
        worker.optimizer.step()
        if worker.scheduler is not None:
            worker.scheduler.step()
    steps = [
        {n: share * (p.detach() - common[n]) for n, p in worker.every.items() if n in worker.averaged}
        for worker, share in zip(everyone, shares, strict=True)
    ]
    for name, step in _summed(steps, backwards).items():
        common[name] = common[name] + step
        for worker in everyone:
            with torch.no_grad():
                worker.every[name].copy_(common[name])


def _evaluate(everyone: list[Worker], loss_of: Any, precision: str) -> tuple[float, float | None]:
    """(mean loss per target, share of correct targets) of the test data, dealt out to all, with averaged buffers."""
    averaged = _averaged_buffers([worker.model for worker in everyone])
    loss = correct = 0.0
    counted, weight = False, 0.0
    for rank, worker in enumerate(everyone):
        mine = _share(np.arange(len(worker.test_data)), rank, len(everyone))
        modes = [(module, module.training) for module in worker.model.modules()]
        local = {n: b.detach().clone() for n, b in worker.model.named_buffers()}
        worker.model.eval()
        _write(worker.model, averaged)
        if len(mine):
            inputs, targets = _batch(worker.test_data, mine)
            with torch.no_grad(), worker.at_work():
                total, right = _pass(worker.model, loss_of, inputs, targets, precision)
            loss, weight = loss + float(total), weight + _weight(targets)
            if right is not None:
                correct, counted = correct + float(right), True
        _write(worker.model, local)
        for module, training in modes:
            module.training = training
    return loss / weight, (correct / weight if counted else None)


def _pass(model: nn.Module, loss_of: Any, inputs: Any, targets: Tensor, precision: str) -> tuple[Tensor, Any]:
    if precision == "float64":
        inputs = _mapped(inputs, lambda t: t.double() if t.is_floating_point() else t)
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        total, correct = loss_of(model, inputs, targets)
    return total, correct


def _loss_of(file: ModuleType) -> Any:
    def cross_entropy(model: nn.Module, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        logits = model(inputs)
        loss = functional.cross_entropy(logits, targets, reduction="sum", ignore_index=IGNORED)
        return loss, (logits.argmax(1) == targets).sum()

    return getattr(file, "loss", cross_entropy)


def _mapped(values: Any, change: Any) -> Any:
    if isinstance(values, Tensor):
        return change(values)
    if isinstance(values, dict):
        return {key: _mapped(value, change) for key, value in values.items()}
    return type(values)(_mapped(value, change) for value in values)


def _batch(data: Any, indices: np.ndarray) -> tuple[Any, Tensor]:
    inputs, targets = default_collate([data[int(i)] for i in indices])
    return inputs, targets


def _share(indices: np.ndarray, part: int, parts: int) -> np.ndarray:
    """A contiguous part; the first parts are the larger ones."""
    share, rest = divmod(len(indices), parts)
    start = part * share + min(part, rest)
    return indices[start : start + share + (part < rest)]


def _weight_of(worker: Worker, indices: np.ndarray) -> float:
    return _weight(_batch(worker.train_data, indices)[1]) if len(indices) else 0.0


def _weight(targets: Tensor) -> float:
    return float(targets.numel() if targets.is_floating_point() else (targets != IGNORED).sum())


def _averaged_buffers(models: list[nn.Module]) -> dict[str, Tensor]:
    """Numbers with a fraction: their mean; others: the largest."""
    everyone = [dict(model.named_buffers(remove_duplicate=False)) for model in models]
    found = {}
    for name, buffer in everyone[0].items():
        stacked = torch.stack([mine[name].detach() for mine in everyone])
        fraction = buffer.is_floating_point() or buffer.is_complex()
        found[name] = stacked.mean(0) if fraction else stacked.amax(0)
    return found


def _write(model: nn.Module, values: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            buffer.copy_(values[name])


def _apart(everyone: list[Worker]) -> str | None:
    """They compute the same sums in the same order, so what they hold is the same to the last bit."""
    first = everyone[0].every
    for worker in everyone[1:]:
        for name, value in worker.every.items():
            if not torch.equal(value, first[name]):
                return name
    return None


def _agree(everyone: list[Worker]) -> None:
    """All parameters become the first worker's."""
    for worker in everyone[1:]:
        for name, parameter in worker.every.items():
            parameter.data.copy_(everyone[0].every[name].detach())


def _numbers(trained: Trained) -> list[Any]:
    """All that training came to, to the last bit."""

    def bits(named: dict[str, Tensor]) -> list[tuple[str, bytes]]:
        dense = {name: value.to_dense() if value.is_sparse else value for name, value in named.items()}
        return [
            (name, bytes(value.resolve_conj().reshape(-1).contiguous().view(torch.uint8).tolist()))
            for name, value in dense.items()
        ]

    steps = [bits(worker) for step in trained.gradients for worker in step]
    return [*steps, bits(trained.state), repr(trained.test_loss), repr(trained.test_accuracy)]


def _optimizer(spec: dict[str, Any], named: dict[str, nn.Parameter]) -> torch.optim.Optimizer:
    """One optimizer; a parameter is in the first group whose pattern it matches, else in the default one."""
    patterns = spec.get("groups", [])
    groups: list[dict[str, Any]] = [{"params": []}, *({"params": [], **g["options"]} for g in patterns)]
    for name, parameter in named.items():
        chosen = next((i for i, g in enumerate(patterns, 1) if fnmatchcase(name, g["match"])), 0)
        groups[chosen]["params"].append(parameter)
    kind = OPTIMIZERS[spec["name"]]
    return kind(groups, lr=spec["learning_rate"], **spec["options"])


def _scheduler(optimizer: torch.optim.Optimizer, spec: dict[str, Any], steps: int) -> Any:
    if spec["name"] == "constant" and not spec["options"]:
        return None
    name, length = SCHEDULES[spec["name"]]
    options = {**({length: steps} if length else {}), **spec["options"]}
    return getattr(torch.optim.lr_scheduler, name)(optimizer, **options)


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
