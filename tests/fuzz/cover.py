"""Which networks cover the grammar: what a case has, what there is, and a choice of networks that have all of it.

python -m tests.fuzz.cover RECORD    chooses anew, among the networks that a campaign has tried (`campaign_SEED.jsonl`),
                                     and prints what `fixed.py` holds
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.fuzz.campaign import case_of
from tests.fuzz.draw import OVERRIDES, PRECISIONS
from tests.fuzz.grammar.data import INPUTS, PACKINGS
from tests.fuzz.grammar.extras import EXTRAS
from tests.fuzz.grammar.file import write
from tests.fuzz.grammar.flows import FLOWS
from tests.fuzz.grammar.layers import LAYERS
from tests.fuzz.grammar.losses import LOSSES
from tests.fuzz.network import Case
from tests.fuzz.training import (
    ACTIVATIONS,
    ALONE,
    HOOKS,
    NOT_WAITING,
    OPTIMIZERS,
    PREPARED,
    SCHEDULES,
    STRATEGIES,
)

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
        found |= {f"{name}, workers: {n}" for n in ((1,) if name in ALONE else (1, 2, 3))}
        found |= {_option(name, option, value) for option, values in options.items() for value in values}
    found |= {f"optimizer: {name}" for name in OPTIMIZERS} | {f"schedule: {name}" for name in SCHEDULES}
    found |= {f"override: {json.dumps(each)}" for each in OVERRIDES}
    found |= {f"activations: {each.get('activations', 'keep')}" for each in ACTIVATIONS}
    found |= {f"input: {json.dumps(each)}" for each in PREPARED}
    found |= {f"ddp, hook: {each.get('hook', 'none')}" for each in HOOKS} | {
        f"{n}, not waiting" for n in NOT_WAITING
    }
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
    found |= {_option(name, option, strategy["options"].get(option)) for option in STRATEGIES[name]}
    found |= {f"optimizer: {job['optimizer']['name']}", f"schedule: {job['schedule']['name']}"}
    moved = [each for each in job["overrides"] if "activations" in each]
    others = [each for each in job["overrides"] if each not in moved]
    found.add(f"input: {json.dumps(job.get('input', {}))}")
    found.add(f"activations: {moved[0]['activations'] if moved else 'keep'}")
    found |= {f"override: {json.dumps(others)}", f"micro-batches: {training['micro_batches']}"}
    found.add(f"clipping: {training['clip_norm'] is not None}")
    found.add(f"evaluation: {job['evaluation']['every_epochs']}, {job['evaluation']['at_end']}")
    rest = network.samples % batch
    more = {
        "uneven last batch": rest != 0,
        "a worker without samples": 0 < (rest or batch) < workers,
        "parameter groups": "groups" in job["optimizer"],
        "epochs": "epochs" in training,
        "not deterministic": not training["deterministic"],
        f"ddp, hook: {strategy['options'].get('hook', 'none')}": name == "ddp",
        f"{name}, not waiting": strategy["options"].get("own_writes") is False,
    }
    return (found | {what for what, is_so in more.items() if is_so}) & everything()


def _option(strategy: str, option: str, value: Any) -> str:
    """A word is a choice of its own under each strategy; a size is one under all, whatever it is the size of."""
    *_, kind = option.split("_")
    return f"{strategy}, {option}: {value}" if isinstance(value, str) else f"{kind}: {value}"


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
    for what only they have. Among the others those count that have most of `everything`, then most of `beside`."""
    tried: dict[str, dict[int, Case]] = {"same": {}, "refused": {}}
    seed = int(record.stem.partition("_")[2])
    for line in record.read_text().splitlines():
        number, kind, *_ = json.loads(line)
        if kind in tried:
            tried[kind][number] = case_of(seed, number)
    has = {number: had(case) for number, case in tried["same"].items()}
    refused = {number: had(case) for number, case in tried["refused"].items()}
    only = everything() - set().union(*has.values())
    few = _greedy(refused, only, networks)
    several = [_greedy(has, everything() - only, networks - len(few), seed=each) for each in range(40)]
    chosen = max(several, key=lambda numbers: len(set().union(*(has[number] for number in numbers))))
    forms = {number: beside(case) for number, case in tried["same"].items()}
    _exchange(chosen, has, forms)
    found = set().union(*(has[number] for number in chosen), *(refused[number] for number in few))
    return sorted(chosen), sorted(few), everything() - found


def _greedy(has: dict[int, set[str]], missing: set[str], most: int, *, seed: int = 0) -> list[int]:
    """At most so many networks, first those that have most of what is missing; what few have counts for more, as a draw
    from `seed` has it."""
    often = Counter(what for found in has.values() for what in found)
    draw = random.Random(seed)
    worth = {what: draw.uniform(0.5, 1.5) / often[what] for what in sorted(often)}
    chosen: list[int] = []
    while len(chosen) < most and len(chosen) < len(has):
        best = max(
            sorted(has.keys() - set(chosen)),
            key=lambda number: sum(worth[what] for what in has[number] & missing),
        )
        if not has[best] & missing and not missing & set().union(*has.values()):
            break
        chosen.append(best)
        missing = missing - has[best]
    return chosen


def _exchange(chosen: list[int], has: dict[int, set[str]], forms: dict[int, set[str]]) -> None:
    """Replace networks, one at a time, as long as all together have more of it."""
    better = True
    while better:
        better = False
        for place, number in enumerate(chosen):
            others = [other for other in chosen if other != number]
            there = set().union(*(has[other] for other in others))
            formed = set().union(*(forms[other] for other in others))
            best = max(
                [number, *(has.keys() - set(chosen))],
                key=lambda each: (len(has[each] - there), len(forms[each] - formed)),
            )
            if best != number:
                chosen[place], better = best, True


if __name__ == "__main__":
    trained, refused, missing = choose(Path(sys.argv[1]), 76)
    print(f"TRAINED = {tuple(trained)}\nREFUSED = {tuple(refused)}\nmissing: {sorted(missing)}")
