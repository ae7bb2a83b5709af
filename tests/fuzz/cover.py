"""Which networks cover the grammar: what a case has, what there is, and a choice of networks that have all of it.

python -m tests.fuzz.cover RECORD    chooses anew, among the networks that a campaign has tried (`campaign_SEED.jsonl`),
                                     and prints what `sixty.py` holds
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.campaign import case_of
from tests.fuzz.draw import OVERRIDES, PRECISIONS
from tests.fuzz.grammar.data import INPUTS, PACKINGS
from tests.fuzz.grammar.extras import EXTRAS
from tests.fuzz.grammar.file import write
from tests.fuzz.grammar.flows import FLOWS
from tests.fuzz.grammar.layers import LAYERS
from tests.fuzz.grammar.losses import LOSSES
from tests.fuzz.network import Case
from tests.fuzz.training import OPTIMIZERS, SCHEDULES, STRATEGIES

EFFECTS = (
    "hook: forward", "hook: value", "hook: backward", "hook: gradient", "hook: accumulated gradient",
    "type: double", "type: bfloat16", "flow: tied weight", "loss: gradient by inputs", "loss: double backward",
    "extra: maximal norm of an embedding",
)  # fmt: skip
"""What a network has only where what it is drawn with goes together."""


def everything() -> set[str]:
    """All that a case may have."""
    found = {f"layer: {name}" for name in LAYERS} | {f"flow: {name}" for name in FLOWS} | set(EFFECTS)
    found |= {f"extra: {name}" for name in EXTRAS} | {f"loss: {name}" for name in LOSSES}
    found |= {f"inputs: {name}" for name in (*INPUTS, *PACKINGS) if name != "tensor"}
    found |= {f"precision: {name}" for name in PRECISIONS}
    for name, options in STRATEGIES.items():
        found |= {f"{name}, workers: {n}" for n in ((1,) if name == "single" else (1, 2, 3))}
        for option, values in options.items():
            found |= {f"{name}, {option}: {value}" for value in values}
    found |= {f"optimizer: {name}" for name in OPTIMIZERS} | {f"schedule: {name}" for name in SCHEDULES}
    found |= {f"override: {json.dumps(each)}" for each in OVERRIDES}
    found |= {f"micro-batches: {n}" for n in (1, 2, 3)} | {f"clipping: {c}" for c in (True, False)}
    found |= {f"evaluation: {every}, {end}" for every in (None, 0.5, 1) for end in (True, False)}
    return found | {
        "uneven last batch",
        "a worker without samples",
        "parameter groups",
        "epochs",
        "not deterministic",
    }


def had(case: Case) -> set[str]:
    """What of `everything` a case has."""
    job, network = case.job, case.network
    strategy, training, workers = job["strategy"], job["training"], job["cluster"]["workers"]
    name, batch = strategy["name"], training["global_batch"]
    found = set(write(network, case.precision).features)
    found |= {f"precision: {case.precision}", f"{name}, workers: {workers}"}
    for option in STRATEGIES[name]:
        found.add(f"{name}, {option}: {strategy['options'].get(option)}")
    found |= {f"optimizer: {job['optimizer']['name']}", f"schedule: {job['schedule']['name']}"}
    found |= {f"override: {json.dumps(job['overrides'])}", f"micro-batches: {training['micro_batches']}"}
    found.add(f"clipping: {training['clip_norm'] is not None}")
    found.add(f"evaluation: {job['evaluation']['every_epochs']}, {job['evaluation']['at_end']}")
    rest = network.samples % batch
    more = {
        "uneven last batch": rest != 0,
        "a worker without samples": 0 < (rest or batch) < workers,
        "parameter groups": "groups" in job["optimizer"],
        "epochs": "epochs" in training,
        "not deterministic": not training["deterministic"],
    }
    return (found | {what for what, is_so in more.items() if is_so}) & everything()


def beside(case: Case) -> set[str]:
    """What is worth having beside `everything`: each layer, flow, extra and loss under each strategy, in each form."""
    name, network = case.job["strategy"]["name"], case.network
    forms = {f"layer: {b.layer} {b.variant}" for b in network.blocks}
    forms |= {f"flow: {b.flow} {b.variant}" for b in network.blocks}
    forms |= {f"extra: {e.kind} {e.variant}" for e in network.extras}
    kinds = {
        f for f in had(case) if f.partition(":")[0] in ("layer", "flow", "extra", "loss", "hook", "type")
    }
    return forms | {f"{name} with {kind}" for kind in kinds}


def choose(record: Path, networks: int) -> tuple[list[int], list[int], set[str]]:
    """(numbers of networks that are trained, of some that are refused, what none of them has). Refused ones are taken
    for what only they have. The rest of `networks` has most of `beside`, for the time that it takes."""
    tried: dict[str, dict[int, tuple[Case, float]]] = {"same": {}, "refused": {}}
    seed = int(record.stem.partition("_")[2])
    for line in record.read_text().splitlines():
        number, kind, _, seconds = json.loads(line)
        if kind in tried:
            tried[kind][number] = case_of(seed, number), seconds
    missing, chosen = everything(), {"same": list[int](), "refused": list[int]()}
    for kind, cases in tried.items():
        missing = _greedy(cases, chosen[kind], missing, had, networks - len(chosen["same"]))
    left = networks - len(chosen["same"]) - len(chosen["refused"])
    rest = set().union(*(beside(case) for case, _ in tried["same"].values()))
    rest -= set().union(*(beside(tried["same"][number][0]) for number in chosen["same"]))
    _greedy(tried["same"], chosen["same"], rest, beside, left)
    return sorted(chosen["same"]), sorted(chosen["refused"]), missing


def _greedy(
    cases: dict[int, tuple[Case, float]],
    chosen: list[int],
    missing: set[str],
    look: Callable[[Case], set[str]],
    most: int,
) -> set[str]:
    """Add to `chosen` at most so many of `cases`, those first that have most of what is missing, where what few have
    counts for more, and take less time than most; what is missing still."""
    has = {number: look(case) for number, (case, _) in cases.items() if number not in chosen}
    often = Counter(what for found in has.values() for what in found)
    for _ in range(most):
        worth = {
            number: sum(1 / often[what] for what in found & missing) / (10.0 + cases[number][1])
            for number, found in has.items()
        }
        best = max(worth, key=worth.__getitem__, default=None)
        if best is None or not worth[best]:
            break
        chosen.append(best)
        missing = missing - has.pop(best)
    return missing


if __name__ == "__main__":
    trained, refused, missing = choose(Path(sys.argv[1]), 60)
    print(f"TRAINED = {tuple(trained)}\nREFUSED = {tuple(refused)}\nmissing: {sorted(missing)}")
