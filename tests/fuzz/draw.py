"""Hypothesis strategies: random networks, and jobs that train them. What is simple comes first: shrinking finds it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.grammar.data import INPUTS, PACKINGS
from tests.fuzz.grammar.extras import EXTRAS
from tests.fuzz.grammar.file import File, write
from tests.fuzz.grammar.flows import FLOWS
from tests.fuzz.grammar.layers import LAYERS
from tests.fuzz.grammar.losses import LOSSES
from tests.fuzz.network import Block, Case, Extra, Network
from tests.fuzz.training import (
    ACTIVATIONS,
    ALONE,
    AVERAGING,
    DRIFTING,
    HOOKS,
    NOT_WAITING,
    OPTIMIZERS,
    PEERS,
    PLAIN_SGD,
    PREPARED,
    SCHEDULES,
    STANDSTILL,
    STRATEGIES,
    WHOLE,
)

_SIZES = (3, 1, 2, 4, 5, 7)
_CALLS = st.integers(1, 4)
PRECISIONS = ("float64",) * 8 + ("float32",) * 2 + ("bf16",)


RARE = ("lazy", "sparse embedding")
"""Layers that plain PyTorch often refuses to train, too."""


def _block(layer: str, flow: str, form: int) -> Block:
    form, variant = divmod(form, 4)
    size, when = divmod(form, 4)
    return Block(layer=layer, flow=flow, variant=variant, when=when + 1, size=_SIZES[size])


def _extra(kind: str, form: int) -> Extra:
    form, variant = divmod(form, 4)
    target, when = divmod(form, 4)
    return Extra(kind=kind, variant=variant, when=when + 1, target=target)


# As few choices as possible for each element of a list: of up to five choices hypothesis takes out any run.
blocks = st.builds(
    _block,
    layer=st.sampled_from([name for name in LAYERS if name not in RARE] * 3 + list(RARE)),
    flow=st.sampled_from(["plain"] * len(FLOWS) + list(FLOWS)),
    form=st.integers(0, 4 * 4 * len(_SIZES) - 1),
)
extras = st.builds(_extra, kind=st.sampled_from(list(EXTRAS)), form=st.integers(0, 4 * 4 * 4 - 1))
networks = st.builds(
    Network,
    inputs=st.sampled_from(INPUTS),
    width=st.sampled_from(_SIZES),
    packing=st.one_of(st.just("tensor"), st.just("tensor"), st.sampled_from(PACKINGS)),
    blocks=st.lists(blocks, max_size=5).map(tuple),
    extras=st.lists(extras, max_size=2).map(tuple),
    loss=st.one_of(st.just("default"), st.sampled_from(list(LOSSES))),
    loss_when=_CALLS,
    seed=st.integers(0, 99),
)


def one_of(values: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """{"name": ..., "options": ...} of a table: name -> option -> possible values; None leaves the option out."""
    return st.sampled_from(list(values)).flatmap(
        lambda name: st.fixed_dictionaries(
            {
                "name": st.just(name),
                "options": st.fixed_dictionaries(
                    {option: st.sampled_from(list(choices)) for option, choices in values[name].items()}
                ).map(lambda found: {key: value for key, value in found.items() if value is not None}),
            }
        )
    )


@st.composite
def _jobs(draw: st.DrawFn, file: File, precision: str) -> tuple[dict[str, Any], int, int]:
    """(a job that suits the file; how many training and test samples go with it)."""
    # Each worker rounds its own update before they are averaged, and in bfloat16 that is more than the last digits.
    rounds = AVERAGING if "type: bfloat16" in file.features else ()
    strategy = draw(one_of({name: options for name, options in STRATEGIES.items() if name not in rounds}))
    averaging, drifting = strategy["name"] in AVERAGING, strategy["name"] in DRIFTING
    workers = 1 if strategy["name"] in ALONE else draw(st.sampled_from([2, 2, 1, 3]))
    if strategy["name"] == "softsync":
        strategy["options"]["contributions"] = workers
    if (strategy["options"].get("servers") or 0) > workers:
        strategy["options"]["where"] = "dedicated"
    micro = draw(st.sampled_from([1, 1, 2, 3]))
    most = workers * micro
    batch = most * draw(st.integers(file.least_pass, 3)) + draw(st.integers(0, most - 1))
    rest = draw(st.sampled_from([0, *range(1 if file.least_pass == 1 else most * file.least_pass, batch)]))
    samples = batch * draw(st.integers(1, 3)) + rest
    length = draw(st.sampled_from([{"steps": n} for n in (5, 3, 4, 7)] + [{"epochs": 2.0}, {"epochs": 1.5}]))
    parts = {name: options for name, options in OPTIMIZERS.items() if name not in WHOLE}
    optimizer = draw(one_of(PLAIN_SGD if averaging else parts if drifting else OPTIMIZERS))
    optimizer["learning_rate"] = 0.05 if "sgd" in optimizer["name"] else 0.01
    if not averaging and draw(st.sampled_from([False, False, True])):
        optimizer["groups"] = [{"match": "*.bias", "options": {"lr": 0.02}}]
    schedule = draw(one_of(SCHEDULES))
    if schedule["name"] == "one-cycle":
        schedule["options"]["cycle_momentum"] = bool(optimizer["options"].get("momentum"))
    job = {
        "strategy": strategy,
        "cluster": {"workers": workers},
        "training": {
            **length,
            "global_batch": batch,
            "micro_batches": micro,
            "precision": precision,
            "clip_norm": None if averaging or drifting else draw(st.sampled_from([None, None, 0.5])),
            "seed": draw(st.integers(0, 9)),
            "deterministic": not drifting and draw(st.booleans()),
        },
        "optimizer": optimizer,
        "schedule": schedule,
        "evaluation": {
            "every_epochs": None if drifting else draw(st.sampled_from([None, 0.5, 1])),
            "at_end": draw(st.booleans()),
        },
        "overrides": draw(st.sampled_from(OVERRIDES)) if strategy["name"] in OVERRIDDEN else [],
    }
    tests = (
        draw(st.integers(1, 5))
        if file.least_pass == 1
        else file.least_pass * workers + draw(st.integers(0, 1))
    )
    # Last, so that a number's network stays what it was.
    if strategy["name"] == "ddp":
        strategy["options"] |= draw(st.sampled_from(HOOKS))
    elif strategy["name"] != "fsdp":
        moved = draw(st.sampled_from(ACTIVATIONS))
        job["overrides"] = [*job["overrides"], *([{"layers": "*", **moved}] if moved else [])]
    if strategy["name"] in NOT_WAITING and draw(st.sampled_from([False, False, True])):
        strategy["options"]["own_writes"] = False
        job["optimizer"] = {**optimizer, "learning_rate": STANDSTILL}
        job["optimizer"].pop("groups", None)
        job["schedule"] = {"name": "constant", "options": {}}
    # An update is rounded to the parameters' own type, which in bfloat16 is more than the last digits.
    if (
        strategy["name"] == "single"
        and "type: bfloat16" not in file.features
        and draw(st.sampled_from([False, False, True]))
    ):
        ((name, options),) = PEERS.items()
        job["strategy"] = {"name": name, "options": options}
        job["training"]["deterministic"] = False
        job["evaluation"]["every_epochs"] = None
    if prepared := draw(st.sampled_from(PREPARED)):
        job["input"] = prepared
    return job, samples, tests


OVERRIDES: list[list[dict[str, Any]]] = [
    [],
    [],
    [],
    [{"kind": "linear", "exchange": "factors"}],
    [{"kind": "linear", "strategy": "p3", "options": {"slice_size": 5}}],
    [{"layers": "*1", "exchange": "tree-allreduce", "unit": "slice", "size": 3}],
    [{"layers": "*1", "exchange": "native"}],
]
OVERRIDDEN = ("p3", "parameter-server", "ring-allreduce", "ring-allreduce-overlap", "late-multiply")
"""The strategies whose layers are sometimes given other choices."""


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A network and its job."""
    draw(
        st.integers(0, 999)
    )  # of what `campaign.py` draws the first choice is never the simplest: this one, then
    network = draw(networks)
    precision = draw(st.sampled_from(PRECISIONS))
    job, samples, tests = draw(_jobs(write(network, precision), precision))
    return Case(network=replace(network, samples=samples, test_samples=tests), job=job)
