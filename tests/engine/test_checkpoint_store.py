"""Checkpoints on a disk: what is one, what is none, and what becomes of either."""

from __future__ import annotations

import json
import logging
import random
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import Parameter

from engine.checkpoint import part as parts
from engine.checkpoint.part import Part
from engine.checkpoint.shard_cuts import ShardCuts
from engine.checkpoint.store import MANIFEST, Store
from engine.checkpoint.writer import Writer
from engine.errors import UserError
from engine.plan.checkpoint import CheckpointSpec
from engine.plan.optimizers import OPTIMIZERS
from engine.plan.updates import OptimizerSpec, ScheduleSpec
from engine.state import random_state
from engine.state.updates import HyperSchedule, Updater
from tests.jobs import job, plan_of

NAMES = ["worker-0", "shard-0"]


def store_of(folder: Path, *, fingerprint: str = "a", keep: int = 10) -> Store:
    return Store(folder, fingerprint=fingerprint, keep=keep)


def write(store: Store, step: int, value: float = 0.0, *, complete: bool = True) -> None:
    """A checkpoint, or one of which the manifest is missing."""
    for name in NAMES:
        part = Part(tensors={"x": torch.full((1000,), value)})
        store.say(step, name, parts.write(part, store.part(step, name)))
    if complete:
        assert store.complete(step, NAMES, lambda: 0.0) is None


def steps_in(folder: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in folder.iterdir())


@pytest.mark.parametrize("dtype", list(parts._TYPES), ids=str)
def test_a_part_is_read_as_it_was_written(dtype: torch.dtype, tmp_path: Path) -> None:
    part = Part(texts={"done": '{"é": 1}'})
    whole = torch.arange(12).reshape(3, 4).to(dtype)
    state = {"odd": whole[:, 1:], "turned": whole.t(), "one": whole[0, 0], "none": whole[:0], "all": whole}
    part.put("a/b", state)
    path = tmp_path / "part"
    written = parts.write(part, path)
    assert path.stat().st_size == written.bytes
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = parts.read(path)
    assert found.texts == part.texts
    for name, tensor in found.under("a/b").items():
        assert (tensor.dtype, tensor.shape) == (dtype, state[name].shape)
        assert torch.equal(tensor.reshape(-1).view(torch.uint8), state[name].reshape(-1).view(torch.uint8))
    assert found.under("a/b").keys() == state.keys()


def test_a_part_is_laid_out_as_safetensors_lays_it_out(tmp_path: Path) -> None:
    part = Part(tensors={"x": torch.tensor([1.0, 2.0]), "y": torch.tensor([[3]], dtype=torch.int16)})
    parts.write(part, tmp_path / "part")
    content = (tmp_path / "part").read_bytes()
    size = int.from_bytes(content[:8], "little")
    assert size % 8 == 0
    assert json.loads(content[8 : 8 + size]) == {
        "__metadata__": {},
        "x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        "y": {"dtype": "I16", "shape": [1, 1], "data_offsets": [8, 10]},
    }
    assert np.frombuffer(content[8 + size :], "<f4", 2).tolist() == [1.0, 2.0]


def test_what_was_put_stays_while_training_goes_on() -> None:
    tensor, part = torch.zeros(3), Part()
    part.put("p", {"x": tensor})
    tensor.add_(1)
    assert part.under("p")["x"].tolist() == [0, 0, 0]


def test_the_newest_whole_one_is_gone_on_from(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    assert store.begin(NAMES) is None
    for step in (3, 12):
        write(store, step)
    assert store_of(tmp_path).begin(NAMES) == 12
    assert stat.S_IMODE((tmp_path / "step-0000000012" / MANIFEST).stat().st_mode) == 0o600


def flipped(place: Path) -> None:
    path = place / "shard-0.safetensors"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)


def shortened(place: Path) -> None:
    path = place / "worker-0.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def without(name: str) -> object:
    return lambda place: (place / name).unlink()


def linked(place: Path) -> None:
    """Somebody has put another file in its place."""
    path = place / "worker-0.safetensors"
    other = path.rename(place / "elsewhere")
    path.symlink_to(other)


def forged(*dropped: str, more: str | None = None) -> object:
    """Its manifest lists other parts than were written, each as it is."""

    def forge(place: Path) -> None:
        found = json.loads((place / MANIFEST).read_text())
        for name in dropped:
            del found["parts"][name]
        if more is not None:
            found["parts"][more] = found["parts"]["shard-0"]
        (place / MANIFEST).write_text(json.dumps(found))

    return forge


DAMAGES = {
    "a bit": (flipped, "is not what was written"),
    "the end": (shortened, "is not what was written"),
    "a part": (without("shard-0.safetensors"), "cannot be read"),
    "the manifest": (without(MANIFEST), "were being written when the attempt ended"),
    "half a manifest": (lambda place: (place / MANIFEST).write_text('{"format": 1,'), "cannot be read"),
    "another version's": (
        lambda place: (place / MANIFEST).write_text('{"format": 2}'),
        "none of this version",
    ),
    "no parts": (
        lambda place: (place / MANIFEST).write_text('{"format": 1, "step": 12, "fingerprint": "a"}'),
        "names no parts",
    ),
    "a link": (linked, "a link"),
    "fewer parts": (forged("worker-0"), "its manifest lacks worker-0"),
    "another part": (
        forged("worker-0", more="worker-1"),
        "its manifest lacks worker-0 and names worker-1, which the job does not have",
    ),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_one_is_skipped_with_a_word(
    what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, (damage, why) = store_of(tmp_path), DAMAGES[what]
    write(store, 3)
    write(store, 12)
    damage(store.place(12))
    with caplog.at_level(logging.WARNING):
        assert store.begin(NAMES) == 3
    assert "the checkpoint of step 12 is not used" in caplog.text
    assert why in caplog.text
    write(store, 12)  # the attempt comes to that step again
    assert store.begin(NAMES) == 12


def test_another_jobs_is_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(store_of(tmp_path, fingerprint="another"), 3)
    assert store_of(tmp_path).begin(NAMES) is None
    assert "belongs to another job" in caplog.text


def test_older_ones_are_removed_when_a_newer_one_is_whole(tmp_path: Path) -> None:
    store = store_of(tmp_path, keep=2)
    for step in (1, 2, 3):
        write(store, step)
    assert steps_in(tmp_path) == [2, 3]
    write(store, 4, complete=False)
    assert steps_in(tmp_path) == [2, 3, 4]
    assert store.complete(4, NAMES, lambda: 0.0) is None
    assert steps_in(tmp_path) == [3, 4]


def test_what_is_left_of_a_removal_that_was_broken_off_goes(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    for step in (1, 2, 3):
        write(store, step)
    (store.place(1) / MANIFEST).unlink()
    assert store.begin(NAMES) == 3
    assert steps_in(tmp_path) == [2, 3]


def test_there_is_none_where_a_party_could_not_write(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    store.say(4, "worker-0", parts.write(Part(), store.part(4, "worker-0")))
    store.say(4, "shard-0", "[Errno 28] No space left on device")
    why = store.complete(4, NAMES, lambda: 0.0)
    assert why == "shard-0 could not write its part: [Errno 28] No space left on device"
    assert steps_in(tmp_path) == []


def test_there_is_none_where_a_party_says_nothing(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    store.say(4, "worker-0", parts.write(Part(), store.part(4, "worker-0")))
    why = store.complete(4, NAMES, lambda: 0.0)
    assert why == "there was no word from shard-0"


def test_a_writer_goes_on_where_the_disk_does_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    writer = Writer(store_of(tmp_path / "file"), "worker-0", all_names=["worker-0"])
    writer.write(4, Part())
    writer.wait()
    assert "there is no checkpoint of step 4: worker-0 could not write its part" in capsys.readouterr().out


def test_a_writer_writes_one_after_another(tmp_path: Path) -> None:
    writer = Writer(store_of(tmp_path, keep=2), "worker-0", all_names=["worker-0"])
    for step in (1, 2, 3):
        writer.write(step, Part(tensors={"x": torch.full((10,), float(step))}))
    writer.close()
    assert steps_in(tmp_path) == [2, 3]
    found = parts.read(store_of(tmp_path).part(3, "worker-0"))
    assert found.tensors["x"].tolist() == [3.0] * 10


def test_a_shard_captures_each_unit_before_the_first_contribution_behind_the_cut(tmp_path: Path) -> None:
    writer = Writer(store_of(tmp_path), "shard-0", all_names=["shard-0"])
    values = {5: torch.zeros(1), 7: torch.zeros(1)}
    cuts = ShardCuts(writer, every=2, units=values, first=0)
    pushes = [(5, 0), (7, 0), (5, 1), (7, 1), (5, 2), (5, 2), (5, 3), (7, 2), (7, 2), (5, 4), (7, 3), (7, 4)]
    for unit, step in pushes:
        cuts.reached(unit, step, lambda unit=unit: {"v": values[unit]})
        values[unit].fill_(step + 1)
    cuts.close()
    assert steps_in(tmp_path) == [2, 4]
    for step in (2, 4):
        found = parts.read(store_of(tmp_path).part(step, "shard-0"))
        assert {name: float(held) for name, held in found.tensors.items()} == {"5/v": step, "7/v": step}


OPTIONS = {
    "sgd": {"momentum": 0.9, "nesterov": True},
    "adam": {"amsgrad": True},
    "rmsprop": {"momentum": 0.5, "centered": True},
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_goes_on_as_if_it_had_never_stopped(name: str, tmp_path: Path) -> None:
    spec = OptimizerSpec(name=name, learning_rate=0.01, options=OPTIONS.get(name, {}))
    hyper = HyperSchedule(spec, ScheduleSpec(), 10).at(0)

    def new() -> dict[str, Parameter]:
        return {"a.w": Parameter(torch.linspace(-1, 1, 12).reshape(3, 4)), "a.v": Parameter(torch.ones(2, 3))}

    def train(updater: Updater, named: dict[str, Parameter], steps: range) -> None:
        for step in steps:
            for parameter in named.values():
                parameter.grad = torch.sin(parameter.detach() * (step + 1))
            updater.update(hyper)

    straight, first, second = new(), new(), new()
    train(Updater(spec, straight), straight, range(6))
    before = Updater(spec, first)
    train(before, first, range(3))
    part = Part()
    part.put("o", before.state())
    parts.write(part, tmp_path / "part")
    with torch.no_grad():
        for key, parameter in second.items():
            parameter.copy_(first[key])
    after = Updater(spec, second)
    after.load(parts.read(tmp_path / "part").under("o"))
    train(after, second, range(3, 6))
    for key, parameter in straight.items():
        assert torch.equal(parameter, second[key]), key


def test_random_numbers_go_on_as_if_they_had_never_stopped(tmp_path: Path) -> None:
    def draw() -> list[float]:
        return [
            random.random(),
            random.gauss(0, 1),
            np.random.rand(),
            np.random.randn(),
            float(torch.rand(())),
        ]

    cpu = torch.device("cpu")
    random.gauss(0, 1)  # of which there are two at a time: the other one is part of the state
    np.random.randn()
    part = Part()
    part.put("r", random_state.state(cpu))
    parts.write(part, tmp_path / "part")
    expected = [draw(), draw()]
    random_state.load(parts.read(tmp_path / "part").under("r"), cpu)
    assert [draw(), draw()] == expected


DEDICATED = {"where": "dedicated", "servers": 1}
REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "powersgd": (
        {"strategy": {"name": "ddp", "options": {"hook": "powersgd"}}},
        "what its hook powersgd keeps inside of PyTorch",
    ),
    "decentralized": (
        {"strategy": {"name": "decentralized-async"}},
        "what workers have sent one another under own-pace",
    ),
    "lost workers": (
        {
            "strategy": {"name": "async-sgd", "options": DEDICATED},
            "cluster": {"workers": 2, "worker_loss": "go-on"},
        },
        "a part of every worker",
    ),
    "good enough": (
        {"strategy": {"name": "bounded-staleness"}, "training": {"target_accuracy": 0.9}},
        "training.target_accuracy may end one",
    ),
    "streaming": ({"strategy": {"name": "streaming-diloco"}}, "an average is under way in every step"),
    "between averages": (
        {"strategy": {"name": "diloco", "options": {"period": 3}}},
        "every 3 steps. Give a multiple of 3",
    ),
    "divided": ({"strategy": {"name": "model-parallel"}}, "a model that is divided"),
    "rehearsed": (
        {"strategy": {"name": "p3"}, "fidelity": "rehearse", "rehearsal": {"device": "a100"}},
        "a rehearsal learns nothing",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_saved_yet_is_refused_with_the_reason(what: str) -> None:
    changes, why = REFUSED[what]
    spec = job(**{"cluster": {"workers": 2}, "checkpoint": {"every_steps": 4}, **changes})
    with pytest.raises(UserError, match="every_steps") as refused:
        plan_of(spec)
    assert why in str(refused.value)
    if what != "between averages":  # that is a matter of steps
        with pytest.raises(UserError, match="every_seconds") as refused:
            plan_of(replace(spec, checkpoint=CheckpointSpec(every_seconds=4)))
        assert why in str(refused.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [("every_steps", 0), ("every_seconds", 0), ("every_seconds", float("inf")), ("keep", 0), ("keep", 1001)],
)
def test_numbers_that_are_none(field: str, value: int) -> None:
    with pytest.raises(UserError, match=field):
        job(checkpoint={field: value})


def test_the_part_of_a_party_that_the_format_does_not_know(tmp_path: Path) -> None:
    strange = torch.empty(2, dtype=torch.float8_e8m0fnu)
    with pytest.raises(TypeError, match="x is of"):
        parts.write(Part(tensors={"x": strange}), tmp_path / "part")


def test_a_word_that_makes_no_sense_ends_the_wait(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    store.say(4, "worker-0", parts.write(Part(), store.part(4, "worker-0")))
    (store.place(4) / "shard-0.json").write_text('{"bytes": "many"}')
    why = store.complete(4, NAMES, lambda: 0.0)
    assert why == "shard-0 could not write its part: what it said makes no sense"
