"""What every strategy of the catalogue must hold, whoever wrote it."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from backend.services.catalogue import schema_of
from engine import strategies as folder
from engine.errors import UnknownNameError, UserError
from engine.inputs.registry import DATASETS
from engine.models.registry import MODELS
from engine.plan.cluster import Cluster, parties, shard_party
from engine.plan.documents import dump_yaml, load_text
from engine.plan.plan import CommHook, Plan, Wrapper
from engine.plan.rules import resolve
from engine.plan.serde import from_plain, to_plain
from engine.preview import rows, text
from engine.simulate.declared import wire_bytes
from engine.strategies import STRATEGIES, build_plan, strategy
from engine.strategies.base import Strategy
from tests.plans import WORKERS, built, described, job

SHARED = {"averaging", "base", "drifting", "fit_budget", "options"}
"""Files of the folder that hold no strategy."""
NAMES = ("cnn", "tied", "frozen", "mixed", "alexnet")

each = pytest.mark.parametrize("entry", STRATEGIES, ids=lambda entry: entry.name)


def module_of(name: str) -> str:
    """The file of a strategy: `p3+late-multiply` is in `p3_late_multiply`."""
    return re.sub("[-+]", "_", name)


def workers_of(entry: Strategy) -> tuple[int, ...]:
    return (1,) if entry.name == "single" else WORKERS


def test_the_folder_is_the_catalogue() -> None:
    """One file per strategy, named as users name it; none without a line in STRATEGIES."""
    files = {path.stem for path in Path(folder.__file__).parent.glob("*.py")} - SHARED - {"__init__"}
    names = [entry.name for entry in STRATEGIES]
    assert len(set(names)) == len(names)
    assert {module_of(name) for name in names} == files


@each
def test_it_says_what_it_is(entry: Strategy) -> None:
    module = import_module(f"engine.strategies.{module_of(entry.name)}")
    assert module.STRATEGY is entry
    assert module.__doc__ is not None
    assert module.__doc__.startswith(f"{entry.name}: ")
    assert "bytes" in module.__doc__.lower(), "says what it moves"
    assert entry.summary[0].isupper()
    assert entry.summary.endswith(".")
    assert entry.loses_when.endswith(".")
    assert entry.proof in ("exact", "bounded", "convergent")
    cells = (entry.summary, entry.loses_when, entry.source)
    assert all(cell and "|" not in cell and "\n" not in cell for cell in cells), "fits into a table's cell"


@each
def test_its_docstring_names_its_source(entry: Strategy) -> None:
    """The papers by number, or the class of PyTorch that it follows."""
    papers = re.findall(r"\b00\d\b", entry.source)
    document = import_module(f"engine.strategies.{module_of(entry.name)}").__doc__ or ""
    named = papers or [entry.source.rpartition(".")[2]]
    assert any(name in document for name in named), named


@each
def test_its_options_are_explained_and_have_defaults(entry: Strategy) -> None:
    schema = schema_of(entry.options)
    assert "required" not in schema
    assert schema["additionalProperties"] is False
    assert [n for n, field in schema.get("properties", {}).items() if not field.get("description")] == []
    assert schema["description"].endswith(".")


@pytest.mark.parametrize("entry", [*MODELS, *DATASETS], ids=lambda entry: entry.name)
def test_options_of_models_and_data_sets_are_explained_too(entry: Any) -> None:
    properties = schema_of(entry.options).get("properties", {})
    assert [name for name, field in properties.items() if not field.get("description")] == []


@each
@pytest.mark.parametrize("name", [*NAMES, pytest.param("resnet32", marks=pytest.mark.soak)])
def test_it_plans_every_model_for_every_number_of_workers(entry: Strategy, name: str) -> None:
    model = described(name)
    trainable = {layer.name for layer in model.layers if any(p.trainable for p in layer.parameters)}
    for workers in workers_of(entry):
        plan = built(entry.name, model, workers)
        assert plan.strategy == entry.name
        assert plan == built(entry.name, model, workers), "a plan depends on its arguments only"
        spec = job(entry.name, workers)
        assert resolve(plan, model, Cluster(workers=workers), spec) == plan, "workers resolve it again"
        kind = type(plan)
        assert from_plain(kind, load_text(dump_yaml(plan), "test")) == plan
        if isinstance(plan, Plan):
            assert {layer.layer for layer in plan.layers} == trainable
            assert all(layer.update in ("worker", "server") for layer in plan.layers)
            assert (wire_bytes(plan, model, workers) > 0) == (workers > 1)
            table = rows(plan, model, spec)
            assert [row.layer for row in table] == [x.name for x in model.layers if x.name in trainable]
            assert sum(row.wire_bytes for row in table) == wire_bytes(plan, model, workers)
        assert entry.name in text(plan, model, spec)


def test_single_is_for_one_worker() -> None:
    refused = r"strategy\.name = 'single': single runs on one worker, and the job has 2\. Choose another"
    with pytest.raises(UserError, match=refused):
        built("single", "cnn", 2)


@pytest.mark.parametrize(
    ("name", "options", "field", "message"),
    [
        ("p3", {"slice": 5}, "strategy.options.slice", "Did you mean 'slice_size'?"),
        ("p3", {"slice_size": 0}, "strategy.options.slice_size", r"must be at least 1 \(elements\)"),
        ("p3", {"codec": "fp17"}, "strategy.options.codec", "Did you mean 'fp16'?"),
        ("p3", {"servers": 0}, "strategy.options.servers", "must be at least 1"),
        (
            "p3",
            {"servers": 3},
            "strategy.options.servers",
            "only 2 workers to stand beside. Use fewer, or dedicated",
        ),
        ("p3", {"where": "cloud"}, "strategy.options.where", "Known: beside, dedicated"),
        ("p3", {"update": "peer"}, "strategy.options.update", "Known: auto, server, worker"),
        ("parameter-server", {"split_over": 0}, "strategy.options.split_over", "must be at least 1"),
        ("central-reduce", {"codec": "x"}, "strategy.options.codec", "Known: "),
        ("ring-allreduce", {"bucket_bytes": -1}, "strategy.options.bucket_bytes", r"\(bytes\)"),
        (
            "tree-allreduce",
            {"algorithm": "butterfly"},
            "strategy.options.algorithm",
            "Known: recursive-halving",
        ),
        ("native-allreduce", {"bucket_bytes": 0}, "strategy.options.bucket_bytes", r"\(bytes\)"),
        ("ddp", {"bucket_bytes": 0}, "strategy.options.bucket_bytes", r"\(bytes\)"),
        ("fsdp", {"group_bytes": 0}, "strategy.options.group_bytes", r"\(bytes\)"),
        ("ddp", {"codec": "fp16"}, "strategy.options.codec", "Known: bucket_bytes"),
        (
            "ddp",
            {"hook": "powersgd", "powersgd_rank": 0},
            "strategy.options.powersgd_rank",
            "rank of a matrix",
        ),
        ("ddp", {"hook": "powersgd", "powersgd_from": 1}, "strategy.options.powersgd_from", "at least 2"),
        ("ddp", {"hook": "fp16", "powersgd_rank": 2}, "strategy.options.powersgd_rank", "set hook: powersgd"),
        ("ddp", {"hook": "fp8"}, "strategy.options.hook", "powersgd"),
    ],
)
def test_wrong_options_are_named_as_the_job_names_them(
    name: str, options: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        built(name, "cnn", 2, **options)
    assert caught.value.field == field


def test_an_unknown_strategy_lists_the_known_ones() -> None:
    with pytest.raises(
        UnknownNameError,
        match=r"Did you mean 'single'\? Known: async-sgd, bounded-staleness, central-reduce, ddp",
    ) as caught:
        build_plan(job("singel", 2), described("cnn"))
    assert caught.value.field == "strategy.name"
    assert strategy("p3").name == "p3"


@each
def test_its_processes_have_names_hosts_and_shards(entry: Strategy) -> None:
    for workers in workers_of(entry):
        plan = built(entry.name, "cnn", workers)
        found = parties(plan, workers)
        assert [party.index for party in found] == list(range(len(found)))
        assert [party.rank for party in found[:workers]] == list(range(workers))
        assert len({party.host for party in found}) == len(found)
        shards = plan.servers.count if isinstance(plan, Plan) else 0
        homes = {party.shard: party.index for party in found if party.shard is not None}
        assert homes == {j: shard_party(plan, workers, j) for j in range(shards) if isinstance(plan, Plan)}


def test_dedicated_servers_come_after_the_workers_on_hosts_of_their_own() -> None:
    plan = built("p3", "cnn", 2, where="dedicated", servers=3)
    assert [party.name for party in parties(plan, 2)] == [
        "worker 0", "worker 1", "server 0", "server 1", "server 2",
    ]  # fmt: skip
    assert [(p.rank, p.shard) for p in parties(plan, 2)] == [
        (0, None),
        (1, None),
        (None, 0),
        (None, 1),
        (None, 2),
    ]
    assert [p.host for p in parties(plan, 2)] == [f"host{i}" for i in range(5)]


def test_a_peer_says_who_runs_it() -> None:
    peer = built("ddp", "cnn", 2)
    assert isinstance(peer, Wrapper)
    assert to_plain(peer) == {
        "strategy": "ddp", "runner": "ddp", "bucket_bytes": 26_214_400, "hook": None, "warnings": [],
    }  # fmt: skip
    assert text(peer, described("cnn"), job("ddp", 2)) == "ddp: run by PyTorch's own ddp, buckets of 25.0 MiB"
    hooked = built("ddp", "cnn", 2, hook="powersgd", powersgd_rank=2)
    assert isinstance(hooked, Wrapper)
    assert hooked.hook == CommHook(name="powersgd", rank=2, first_step=10)
    assert text(hooked, described("cnn"), job("ddp", 2)).endswith(", summed by PyTorch's hook powersgd")
    sharded = built("fsdp", "cnn", 2, group_bytes=2**20)
    assert text(sharded, described("cnn"), job("fsdp", 2)).endswith("own fsdp, groups of at least 1.0 MiB")


def test_building_a_plan_loads_neither_torch_nor_numpy() -> None:
    """In a fresh process: the service plans every strategy without what trains it."""
    code = (
        "import sys\n"
        "from engine.plan.description import *\n"
        "from engine.plan.serde import from_plain\n"
        "from engine.plan.job import JobSpec\n"
        "from engine.strategies import STRATEGIES, build_plan\n"
        "def layer(index, name):\n"
        "    weight = ParameterDescription(name=name + '.weight', shape=(3, 2), dtype='float32')\n"
        "    return LayerDescription(name=name, kind='Linear', index=index, parameters=(weight,))\n"
        "cuts = (CutDescription(layer='a', refused='it is the first'), CutDescription(layer='b', shape=(2,)))\n"
        "model = ModelDescription(name='m', layers=(layer(0, 'a'), layer(1, 'b')), cuts=cuts)\n"
        "for entry in STRATEGIES:\n"
        "    job = {'name': 'x', 'model': {'name': 'cnn'}, 'data': {'name': 'digits'},\n"
        "           'strategy': {'name': entry.name}, 'training': {'steps': 1}}\n"
        "    build_plan(from_plain(JobSpec, job), model)\n"
        "print(*{'torch', 'numpy'} & set(sys.modules))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.stdout.strip(), ran.stderr) == ("", "")
