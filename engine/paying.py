"""Where codecs pay for a job: its plan with each of them, what that moves and encodes, and what this machine takes for
it (`engine/plan/paying.py` has the formula)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from engine import codec_cost
from engine.axes.codec import CODEC
from engine.errors import UserError
from engine.plan.description import ModelDescription
from engine.plan.job import JobSpec
from engine.plan.paying import CodecCost, CodecCosts, Load, Paying, paying
from engine.plan.plan import Plan
from engine.preview import MOST_MESSAGES
from engine.simulate.loads import load_of
from engine.strategies import build_plan, strategy

_OPTION = "codec"
_OF_CODEC = ("codec_options", "entropy_coding")
_UNKNOWN = CodecCost(encode_ns=1, decode_ns=1)
"""By which the busiest party is chosen of a codec whose cost nobody knows."""


def where_codecs_pay(
    job: JobSpec,
    model: ModelDescription,
    *,
    costs: CodecCosts | None = None,
    check: Callable[[], None] = lambda: None,
) -> list[Paying]:
    """Every codec in place of the job's own, and that with its options, each for its strategy, cluster and model; in
    the order of the catalogue. `costs`: as measured here, where left out. Raises UserError where the job is refused, or
    its strategy has no codec."""
    build_plan(job, model)
    known = codec_cost.here() if costs is None else costs
    own = _own_codec(job)
    as_is = next(row.name for row in CODEC if "as-is" in row.traits)
    base = _load(_with(job, as_is), model, known, as_is, check)
    found = []
    for row in CODEC:
        if not row.available or row.name == as_is:
            continue
        mine = row.name == own
        try:
            load = _load(job if mine else _with(job, row.name), model, known, row.name, check)
        except UserError as error:
            found.append(Paying(codec=row.name, mine=mine, why=f"does not go with this job: {error.rule}"))
            continue
        found.append(paying(base, load, row.name, known, mine=mine))
    return found


def _own_codec(job: JobSpec) -> str:
    """What the job's option says, or its strategy's default. Raises UserError where the strategy has no such option."""
    options: Any = strategy(job.strategy.name).options
    if _OPTION not in {each.name for each in fields(options)}:
        raise UserError(
            "strategy.name",
            job.strategy.name,
            "it has no codec, so there is nothing that could pay",
            "Choose a strategy with the option codec, such as p3 or ring-allreduce-overlap",
        )
    chosen: str = job.strategy.options.get(_OPTION, getattr(options(), _OPTION))
    return chosen


def _with(job: JobSpec, codec: str) -> JobSpec:
    """The job with a codec with its default options."""
    others = {name: value for name, value in job.strategy.options.items() if name not in _OF_CODEC}
    return replace(job, strategy=replace(job.strategy, options={**others, _OPTION: codec}))


def _load(
    job: JobSpec, model: ModelDescription, costs: CodecCosts, codec: str, check: Callable[[], None]
) -> Load:
    plan = build_plan(job, model)
    assert isinstance(plan, Plan), "PyTorch's own runners have no codec"
    cost = costs.by_codec.get(codec, _UNKNOWN)
    workers, hosts = job.cluster.workers, job.network.hosts
    return load_of(plan, model, workers, hosts, cost, most=MOST_MESSAGES, check=check)
