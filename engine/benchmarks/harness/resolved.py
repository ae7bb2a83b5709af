"""What a strategy comes to, with the engine of one commit: a default may be another one at another commit, and then
what has one name is not one plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from engine.benchmarks.harness.report import Report
from engine.benchmarks.harness.trees import run_in

_RESOLVE = """
import json, sys
from pathlib import Path
import engine
from engine.benchmarks.harness.jobs import bench_job
from engine.models.describe import describe_request
from engine.plan.serde import from_plain, to_plain
from engine.strategies import build_plan, strategy
assert Path(engine.__file__).is_relative_to(Path.cwd()), f"{engine.__file__} is not of {Path.cwd()}"
spec = bench_job(**json.loads(sys.argv[1]))
options = from_plain(strategy(spec.strategy.name).options, dict(spec.strategy.options), "options")
request = {"model": spec.model, "data": spec.data, "precision": spec.training.precision}
plan = build_plan(spec, describe_request({name: to_plain(value) for name, value in request.items()}))
ways = [[layer.exchange, layer.codec, layer.update, *to_plain(layer.order).values()] for layer in plan.layers]
servers = getattr(plan, "servers", None)
shards = [[servers.count, "shards", servers.where]] if servers is not None and servers.count else []
print(json.dumps({"options": to_plain(options), "ways": ways + shards}))
"""
"""Imports only what all commits have."""
TITLE = "What each strategy comes to"
PLAN = "plan"


def resolved(tree: Path, job: Mapping[str, Any]) -> dict[str, str]:
    """Each option of the strategy of the job that `bench_job` makes of `job` with the engine in `tree`, defaults
    included, and, under PLAN, what comes of it: how layers travel. Raises RuntimeError where that engine refuses it."""
    found = run_in(tree, _RESOLVE, job, f"the engine in {tree} plans no such job")
    ways = dict.fromkeys(" ".join(str(value) for value in way if value is not None) for way in found["ways"])
    return {name: str(value) for name, value in found["options"].items()} | {PLAN: " and ".join(ways) or "-"}


def tell(report: Report, found: Iterable[tuple[str, Mapping[str, str], Mapping[str, str]]]) -> None:
    """Show what every strategy comes to here and there (its label, and `resolved` of both), and warn of those whose
    plans are not the same."""
    rows, apart = [], []
    for label, here, there in found:
        differing = [name for name in {**here, **there} if here.get(name) != there.get(name)]
        rows.append([label, _text(here), _text(there), ", ".join(differing) or "-"])
        if here[PLAN] != there[PLAN]:
            pairs = ", ".join(
                f"{name} {here.get(name, 'none')} here and {there.get(name, 'none')} there"
                for name in differing
            )
            apart.append(
                f"WARNING: {label} is not the same plan at both commits ({pairs}), so its row compares two plans, not"
                " two engines. To compare engines, name those that differ and both have: p3:slice_size=50000."
            )
    report.table(TITLE, ("strategy", "here", "there", "differs in"), rows)
    for text in apart:
        report.note(text)


def _text(options: Mapping[str, str]) -> str:
    return "; ".join(f"{name} {value}" for name, value in options.items())
