"""What a random job may choose: optimizers, schedules, strategies, each with values of its options.

None leaves an option out. Slices and buckets are so small that the layers of small networks are cut.
"""

from __future__ import annotations

from typing import Any

Table = dict[str, dict[str, tuple[Any, ...]]]
"""Name -> option -> values."""

OPTIMIZERS: Table = {
    "sgd": {
        "momentum": (0.9, 0.0),
        "weight_decay": (0.01, 0.0),
        "nesterov": (None,),
    },
    "adamw": {"weight_decay": (0.1, None), "amsgrad": (None, True), "eps": (1e-3,)},
    "adam": {"weight_decay": (None, 0.01), "eps": (1e-3,)},
    "rmsprop": {"momentum": (None, 0.5), "centered": (None, True), "eps": (1e-3,)},
    "adagrad": {"initial_accumulator_value": (0.1,)},
    "adamax": {"eps": (1e-3,)},
    "nadam": {"eps": (1e-3,)},
    "radam": {"eps": (1e-3,)},
    "adadelta": {"eps": (1e-3,)},
    "adafactor": {"eps": ([1e-3, 1e-3],)},
}
"""An eps of 1e-3 keeps rounding errors of gradients that should be zero from becoming steps."""
PLAIN_SGD: Table = {"sgd": {}}
SCHEDULES: Table = {
    "constant": {},
    "cosine": {},
    "step": {"step_size": (2,), "gamma": (0.5,)},
    "one-cycle": {"max_lr": (0.05,)},
    "exponential": {"gamma": (0.9,)},
    "linear": {"start_factor": (0.2,)},
    "multi-step": {"milestones": ([1, 3],)},
    "polynomial": {"power": (2.0,)},
}

_WHERE = ("beside", "dedicated")
_UPDATE = (None, "worker")
_BYTES = (100, 40, 4000, None)
_SERVERS: dict[str, tuple[Any, ...]] = {"servers": (None, 1, 2), "where": _WHERE, "update": _UPDATE}
_SLICES = {**_SERVERS, "slice_size": (5, 3, 50)}
_DRIFTING = {"servers": (None, 1, 2), "where": _WHERE, "slice_size": (5, 3, 50), "rank": ("priority", "fifo")}
_EXCHANGES = ("ring-allreduce", "parameter-server", "tree-allreduce", "central-reducer", "native")
STRATEGIES: Table = {
    "single": {},
    "ring-allreduce-overlap": {"bucket_bytes": _BYTES},
    "p3": _SLICES,
    "late-multiply": {"bucket_bytes": _BYTES, "layers": ("all", "fewer-bytes")},
    "p3+late-multiply": {**_SLICES, "layers": ("all", "fewer-bytes")},
    "parameter-server": {**_SERVERS, "split_over": (10, None)},
    "parameter-server-deferred": {**_SERVERS, "split_over": (10, None)},
    "parameter-slicing": _SLICES,
    "central-reduce": {"where": _WHERE, "update": _UPDATE},
    "ring-allreduce": {"bucket_bytes": _BYTES},
    "tree-allreduce": {"bucket_bytes": _BYTES, "algorithm": (None, "recursive-halving-doubling")},
    "native-allreduce": {"bucket_bytes": _BYTES},
    "hybrid": {"where": _WHERE, "reducer": ("beside", "dedicated", "ring")},
    "model-parallel": {"schedule": ("1f1b", "gpipe")},
    "parameter-averaging": {"exchange": _EXCHANGES, "bucket_bytes": _BYTES, "period": (1,)},
    "model-average": {**_SERVERS, "update": (None,), "learning_rate_rule": ("constant",), "period": (1,)},
    "diloco": {
        "exchange": _EXCHANGES,
        "period": (1,),
        "outer": ("sgd",),
        "outer_learning_rate": (1.0,),
        "outer_momentum": (0.0,),
    },
    "streaming-diloco": {
        "exchange": tuple(name for name in _EXCHANGES if name != "native"),
        "period": (1,),
        "fragments": (1, 2, 3),
        "delay": (0,),
        "mixing": (0.0,),
        "outer": ("sgd",),
        "outer_learning_rate": (1.0,),
        "outer_momentum": (0.0,),
    },
    "async-sgd": _DRIFTING,
    "staleness-aware": _DRIFTING,
    "softsync": _DRIFTING,
    "bounded-staleness": {**_DRIFTING, "bound": (0,), "apply": ("clock",)},
    "ddp": {"bucket_bytes": _BYTES},
    "fsdp": {"group_bytes": _BYTES},
}
PEERS: dict[str, Any] = {"decentralized-async": {"codec": "fp32"}}
"""What is drawn in place of one process, now and then: with one worker it trains as that does."""
HOOKS: list[dict[str, Any]] = [
    {},
    {"hook": "powersgd", "powersgd_from": 100},
    {"hook": "bf16"},
    {"hook": "fp16"},
]
"""What DDP's communication may be given; powersgd compresses nothing before its first step, and is exact."""
ACTIVATIONS: list[dict[str, Any]] = [
    {},
    {},
    {"activations": "recompute"},
    {"activations": "swap", "activation_options": {"least_bytes": 0}},
]
"""What may happen to all that forward saves for backward."""
PREPARED: list[dict[str, Any]] = [
    *[{}] * 6,
    {"prefetch": 0},
    {"where": "processes", "processes": 1},
]
"""Where data may be prepared: nobody draws random numbers there, so that batches are the same."""
STANDSTILL = 1e-300
"""A learning rate that changes no parameter: workers that go on without their own last updates train as plain PyTorch
does then only."""
CUT = ("hybrid", "model-parallel")
"""Behind their cut, random numbers are those of the process that computes the stage, and no replica's."""
AVERAGING = ("parameter-averaging", "model-average", "diloco", "streaming-diloco")
"""At period 1 and with plain SGD an average is the same as a sum of gradients."""
ALONE = ("single", "async-sgd", "staleness-aware")
"""What trains as plain PyTorch does with one worker only."""
NOT_WAITING = ("async-sgd", "staleness-aware")
"""What may go on without its own last update."""
DRIFTING = ("async-sgd", "staleness-aware", "softsync", "bounded-staleness")
"""The same as a sum of gradients with one worker, with contributions of all workers, or by clock at bound 0. Workers do
not meet for an evaluation."""
WHOLE = ("adafactor",)
"""Optimizers that look at whole parameters."""
