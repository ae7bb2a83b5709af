"""Which pairs of choices the suite's gangs train together: `python -m tests.trained [arguments for pytest]`.

Every test of the gang lane is begun; where it would start a gang, the job and its plan are noted and the test ends, so
nothing is trained. A pair is two values of different questions that one job answers: of the job (strategy, workers,
precision, ...), of one of its layers (exchange, codec, unit, ...), or one of each. Fewer launches are no loss as long
as this number does not fall.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from itertools import combinations

import pytest

from engine.gang.gang import Gang
from engine.launch import Launch
from engine.plan.plan import Plan

Value = tuple[str, str]
"""(question, answer)."""


def of_job(launch: Launch) -> dict[str, str]:
    """What a job answers as a whole."""
    job, plan = launch.job, launch.plan
    training = job.training
    found = {
        "strategy": job.strategy.name,
        "workers": str(job.cluster.workers),
        "model": job.model.name or job.model.entrypoint,
        "precision": training.precision,
        "deterministic": str(training.deterministic),
        "micro-batches": "one" if training.micro_batches == 1 else "several",
        "clipping": str(training.clip_norm is not None),
        "optimizer": job.optimizer.name,
        "schedule": job.schedule.name if job.schedule is not None else "none",
        "fidelity": job.fidelity,
        "rate": "limited" if job.network.rate_bps or job.network.hosts else "free",
    }
    if isinstance(plan, Plan):
        found["consistency"] = plan.consistency.mode
        if plan.servers.count:
            found["servers"] = f"{plan.servers.where}, {'one' if plan.servers.count == 1 else 'several'}"
    return {question: str(answer) for question, answer in found.items()}


def of_layers(launch: Launch) -> Iterator[dict[str, str]]:
    """What each of its layers answers."""
    if not isinstance(launch.plan, Plan):
        return
    for layer in launch.plan.layers:
        order = layer.order
        yield {
            "placement": layer.placement,
            "exchange": layer.exchange,
            "update": layer.update,
            "codec": layer.codec,
            "answers": layer.answers,
            "unit": order.unit,
            "depart": order.depart,
            "rank": order.rank,
            "returns": str(order.returns),
            "activations": layer.activations,
        }


class Trained:
    """A plugin that notes what would be trained."""

    def __init__(self) -> None:
        self.launches = 0
        self.pairs: set[frozenset[Value]] = set()

    def pytest_configure(self) -> None:
        noting = self

        def start(gang: Gang) -> None:
            noting.note(gang._launch)
            pytest.skip("noted")

        Gang.start = start  # type: ignore[method-assign]

    def note(self, launch: Launch) -> None:
        self.launches += 1
        whole = of_job(launch)
        self.pairs.update(map(frozenset, combinations(whole.items(), 2)))
        for layer in of_layers(launch):
            self.pairs.update(map(frozenset, combinations((whole | layer).items(), 2)))

    def by_questions(self) -> Counter[str]:
        return Counter(" x ".join(sorted(question for question, _ in pair)) for pair in self.pairs)


def main(arguments: list[str]) -> None:
    trained = Trained()
    pytest.main(["-q", "-p", "no:cacheprovider", "--durations=0", "-rf", *arguments], plugins=[trained])
    for questions, count in sorted(trained.by_questions().items()):
        print(f"{count:6} {questions}")
    print(f"{len(trained.pairs)} pairs in {trained.launches} launches")


if __name__ == "__main__":
    main(sys.argv[1:] or ["--lane", "gang", "-k", "not test_runtime_failures and not test_benchmarks"])
