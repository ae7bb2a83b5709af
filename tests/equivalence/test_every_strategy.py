"""Exact class: whatever was once trained wrong without a word, under every strategy that can express it, at 1, 2 and 3
workers.

Every strategy stands at the setting at which it is exact. Every case is trained under every strategy at every number of
workers in `soak`; here stand those that no other test has.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from engine.errors import UserError
from engine.plan.job import EvaluationSpec, JobSpec
from engine.plan.plan import Plan, replicas
from engine.strategies import STRATEGIES as CATALOGUE
from tests import plain
from tests.equivalence.against_plain import USER_CODE
from tests.jobs import distance, job, plan_of, reference, run

pytestmark = pytest.mark.usefixtures("gang_lane")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A user's model, and what it shows."""

    entrypoint: str
    options: dict[str, Any] = field(default_factory=dict)
    evaluates: bool = False
    """Between its steps; then one process that never does is what it is compared with."""
    writes: bool = False
    """To its parameters."""
    one_worker: bool = False
    """Several do other things to their copies."""


CASES = {
    "read early": Case(entrypoint="reads:early"),
    "kept pointer": Case(entrypoint="reads:kept", options={"how": "pointer", "when": "late"}),
    "typed constructor": Case(entrypoint="typed:model"),
    "penalty": Case(entrypoint="penalty:model"),
    "absent gradients": Case(entrypoint="absent:build", options={"depth": 2}),
    "beyond factors": Case(entrypoint="beyond_factors:build"),
    "own modes": Case(entrypoint="own_state:build", evaluates=True),
    "thawed later": Case(entrypoint="thawed:model", options={"built": False}),
    "written": Case(entrypoint="writes:model", options={"how": "clamp", "when": 3}, writes=True),
    "maximal norm": Case(entrypoint="writes:looking", writes=True, one_worker=True),
    "compiled": Case(entrypoint="compiled:part", options={"backend": "aot_eager"}),
    "compiled as a whole": Case(entrypoint="compiled:whole", options={"backend": "aot_eager"}),
}
_BUCKETS, _SLICES = {"bucket_bytes": 4000}, {"slice_size": 300}
_AVERAGE = {"period": 1, "outer": "sgd", "outer_learning_rate": 1.0, "outer_momentum": 0.0}
STRATEGIES: dict[str, dict[str, Any]] = {
    "single": {},
    "ring-allreduce": _BUCKETS,
    "ring-allreduce-overlap": _BUCKETS,
    "tree-allreduce": _BUCKETS,
    "native-allreduce": _BUCKETS,
    "p3": _SLICES,
    "parameter-server": {},
    "parameter-server-deferred": {},
    "parameter-slicing": _SLICES,
    "central-reduce": {},
    "late-multiply": {"layers": "all"},
    "p3+late-multiply": {"layers": "all", **_SLICES},
    "parameter-averaging": {"period": 1},
    "model-average": {"period": 1, "learning_rate_rule": "constant"},
    "diloco": _AVERAGE,
    "streaming-diloco": {**_AVERAGE, "fragments": 2, "delay": 0, "mixing": 0.0},
    "async-sgd": {},
    "staleness-aware": {},
    "softsync": {},
    "bounded-staleness": {"bound": 0, "apply": "clock"},
    "decentralized-async": {"codec": "fp32"},
    "ddp": _BUCKETS,
    "fsdp": {},
    "hybrid": {},
    "model-parallel": {},
}
ALONE = ("single", "async-sgd", "staleness-aware", "decentralized-async")
DRIFTING = ("async-sgd", "staleness-aware", "softsync", "bounded-staleness")
MAY_REFUSE = ("fsdp", "hybrid", "model-parallel")
"""What holds parts of parameters, or of models, cannot express all of it."""

ROWS = [
    ("tree-allreduce", "read early", 3),
    ("late-multiply", "read early", 1),
    ("softsync", "read early", 2),
    ("diloco", "penalty", 3),
    ("central-reduce", "kept pointer", 2),
    ("p3", "own modes", 3),
    ("bounded-staleness", "own modes", 3),
    ("parameter-server", "own modes", 1),
    ("late-multiply", "beyond factors", 3),
    ("p3+late-multiply", "beyond factors", 2),
    ("p3", "written", 3),
    ("bounded-staleness", "maximal norm", 1),
    ("p3+late-multiply", "compiled", 2),
    ("central-reduce", "compiled", 2),
    ("softsync", "compiled", 2),
    ("async-sgd", "compiled", 1),
    ("decentralized-async", "own modes", 1),
]


def test_every_strategy_of_the_catalogue_is_here() -> None:
    assert STRATEGIES.keys() == {entry.name for entry in CATALOGUE}


def can_express(strategy: str, case: str, workers: int) -> bool:
    """Whether it trains as plain PyTorch does there, or may be refused; otherwise nobody says that it does."""
    alone = workers == 1 or (strategy not in ALONE and not CASES[case].one_worker)
    return alone and not (CASES[case].writes and strategy in DRIFTING and workers > 1)


def spec_of(strategy: str, case: Case, workers: int) -> JobSpec:
    options = dict(STRATEGIES[strategy]) | ({"contributions": workers} if strategy == "softsync" else {})
    spec = job(
        model={"entrypoint": case.entrypoint, "directory": str(USER_CODE), "options": case.options},
        strategy={"name": strategy, "options": options},
        cluster={"workers": workers},
        optimizer={"name": "sgd", "learning_rate": 0.05},  # with which averages at period 1 are sums
        training={"steps": 14, "precision": "float64"},
    )
    between = EvaluationSpec(every_epochs=0.1, at_end=True)
    return replace(spec, evaluation=between) if case.evaluates else spec


@cache
def expected(name: str, workers: int) -> dict[str, Tensor]:
    case = CASES[name]
    never = replace(case, evaluates=False)
    if case.evaluates:
        return reference(spec_of("single", never, 1), workers)
    return plain.train(spec_of("single", never, 1), workers)


@pytest.mark.parametrize(
    ("strategy", "case", "workers"),
    [
        *ROWS,
        *(
            pytest.param(*row, marks=pytest.mark.soak)
            for row in product(STRATEGIES, CASES, (1, 2, 3))
            if row not in ROWS and can_express(*row)
        ),
    ],
)
def test_it_trains_as_plain_pytorch_does(strategy: str, case: str, workers: int, tmp_path: Path) -> None:
    spec = spec_of(strategy, CASES[case], workers)
    try:
        plan, found = plan_of(spec), run(spec, tmp_path)
    except UserError:
        assert strategy in MAY_REFUSE
        return
    if found.end.status == "failed" and strategy in MAY_REFUSE:
        assert found.end.error is not None
        assert found.end.error["type"] in ("UserError", "TrainingError")
        return
    assert found.end.status == "succeeded", found.end.reason
    state, whole = found.state, expected(case, replicas(plan, workers))
    if isinstance(plan, Plan) and plan.edges and "calls" in state:
        state = state | {"calls": whole["calls"]}  # what a cut model has compiled runs there as written
    assert distance(state, whole) <= 1e-11
