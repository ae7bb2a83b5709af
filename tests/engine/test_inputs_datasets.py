"""Data sets: the same samples for the same index, learnable, and clear about files that are not there."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.errors import UnknownNameError, UserError
from engine.inputs.build import find_task, load_dataset
from engine.inputs.registry import DATASETS, dataset, load
from engine.inputs.task import classification, weight
from engine.plan.job import SourceSpec


def read(source, *indices):
    return source.batch(np.array(indices, dtype=np.int64))


def check(data, entry):
    """What every data set must hold."""
    largest = data.example
    inputs, targets = read(data.train, largest, 0, largest)
    assert inputs.shape == (3, *data.input_shape)
    assert targets.shape == (3, *entry.target_shape)
    assert torch.equal(inputs[0], inputs[2])
    alone = read(data.train, 0)[0][0]
    assert torch.equal(inputs[1][..., : alone.shape[-1]], alone)  # what is behind it is padding
    empty, none = read(data.train)
    assert empty.shape[0] == 0
    assert empty.ndim == inputs.ndim
    assert (len(none), none.dtype, empty.dtype) == (0, targets.dtype, inputs.dtype)
    assert len(data.train) > 0
    assert len(data.test) > 0
    if entry.classes is not None:
        assert (data.input_shape, data.classes) == (entry.input_shape, entry.classes)


def write_cifar(folder: Path, binary: bool) -> None:
    draw = np.random.default_rng(0)
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        pixels = draw.integers(0, 256, (4, 3072), dtype=np.uint8)
        labels = np.arange(4, dtype=np.uint8)
        if binary:
            (folder / f"{name}.bin").write_bytes(np.column_stack([labels, pixels]).tobytes())
        else:
            (folder / name).write_bytes(
                pickle.dumps({b"data": pixels, b"labels": labels.tolist()}, protocol=2)
            )


def write_images(folder: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for part, name in ((p, n) for p in ("train", "test") for n in ("cats", "dogs")):
        (folder / part / name).mkdir(parents=True)
        image.new("RGB", (12, 9), "red" if name == "cats" else "blue").save(folder / part / name / "1.png")


SOME = {"pattern": "[a-f]*.py"}
"""As many of the standard library's sources as have all the words: a vocabulary of all of them takes seconds."""
WHOLE = [
    pytest.param(name, {}, marks=pytest.mark.soak, id=f"{name}-whole") for name in ("text", "text-pairs")
]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *(pytest.param(e.name, SOME if e.name.startswith("text") else {}, id=e.name) for e in DATASETS),
        *WHOLE,
    ],
)
def test_every_data_set_reads_by_index(name, options, tmp_path):
    if name == "cifar10":
        write_cifar(tmp_path, binary=False)
        options = {"directory": str(tmp_path)}
    elif name == "image-folder":
        write_images(tmp_path)
        options = {"directory": str(tmp_path), "size": 8}
    check(load(name, options), dataset(name))


def test_unknown_names_and_options_list_the_known_ones():
    with pytest.raises(UnknownNameError, match=r"Did you mean 'digits'"):
        load("digit")
    with pytest.raises(UserError, match=r"data.options.sahpe.*Did you mean 'shape'"):
        load("synthetic", {"sahpe": [3]})
    with pytest.raises(UserError, match="needs one or more positive sizes"):
        load("synthetic", {"shape": []})


def test_digits_are_split_by_class_without_overlap_and_standardized():
    data = load("digits")
    assert (len(data.train), len(data.test)) == (1438, 359)
    inputs, targets = data.train.batch(np.arange(1438))
    shares = torch.bincount(targets) / (
        torch.bincount(targets) + torch.bincount(data.test.batch(np.arange(359))[1])
    )
    assert (shares - 0.8).abs().max() < 0.01
    assert abs(inputs.mean()) < 1e-5
    assert abs(inputs.std() - 1) < 1e-3


@pytest.mark.parametrize("shape", [[7], [3, 8, 8], [2, 3, 4, 5], [100]], ids=str)
def test_synthetic_data_can_be_learned(shape):
    data = load("synthetic", {"shape": shape, "classes": 3, "signal": 2.0, "samples": 300})
    inputs, targets = data.train.batch(np.arange(300))
    means = torch.stack([inputs[targets == c].mean(0) for c in range(3)])
    test, labels = data.test.batch(np.arange(256))
    nearest = torch.cdist(test.flatten(1), means.flatten(1)).argmin(1)
    assert (nearest == labels).float().mean() > 0.8
    assert abs(inputs.std() - 1) < 0.2


def test_synthetic_sentences_are_translated_word_by_word():
    data = load("synthetic-tokens", {"source_vocabulary": 9, "target_vocabulary": 5, "length": 4})
    inputs, targets = data.train.batch(np.arange(200))
    source, moved = inputs.unbind(1)
    assert (moved[:, 0] == 0).all()
    assert torch.equal(moved[:, 1:], targets[:, :-1])
    for word in source.unique():
        assert len(targets[source == word].unique()) == 1
    assert set(source.unique().tolist()) == set(range(9))
    assert set(targets.unique().tolist()) <= {1, 2, 3, 4}
    with pytest.raises(UserError, match="must be at least 2"):
        load("synthetic-tokens", {"target_vocabulary": 1})


def test_synthetic_training_and_test_samples_differ_and_seeds_matter():
    data, other = load("synthetic", {"samples": 4}), load("synthetic", {"samples": 4, "seed": 1})
    assert not torch.equal(read(data.train, 0)[0], read(data.test, 0)[0])
    assert not torch.equal(read(data.train, 0)[0], read(other.train, 0)[0])
    with pytest.raises(IndexError, match="sample 4 of 4"):
        read(data.train, 4)


def test_both_versions_of_cifar10_are_the_same(tmp_path):
    found = []
    for binary in (False, True):
        folder = tmp_path / str(binary)
        folder.mkdir()
        write_cifar(folder, binary)
        found.append(load("cifar10", {"directory": str(folder)}).train.batch(np.arange(20)))
    assert torch.equal(found[0][0], found[1][0])
    assert found[0][1].tolist() == found[1][1].tolist() == [0, 1, 2, 3] * 5


def test_broken_cifar10_files_are_named_and_their_code_is_not_run(tmp_path):
    with pytest.raises(UserError, match="neither data_batch_1 nor"):
        load("cifar10", {"directory": str(tmp_path)})
    write_cifar(tmp_path, binary=False)
    (tmp_path / "data_batch_2").write_bytes(pickle.dumps(Path("x")))
    with pytest.raises(UserError, match=r"data_batch_2.*it asks for pathlib"):
        load("cifar10", {"directory": str(tmp_path)})
    (tmp_path / "data_batch_2.bin").write_bytes(b"short")
    with pytest.raises(UserError, match=r"data_batch_2.bin.*is not a CIFAR-10 batch file"):
        load("cifar10", {"directory": str(tmp_path)})


def test_image_folders_that_are_wrong_are_named(tmp_path):
    with pytest.raises(UserError, match="has no train/"):
        load("image-folder", {"directory": str(tmp_path)})
    write_images(tmp_path)
    (tmp_path / "test" / "birds").mkdir()
    with pytest.raises(UserError, match="test/ has classes that train/ has not: birds"):
        load("image-folder", {"directory": str(tmp_path)})
    (tmp_path / "test" / "birds").rmdir()
    (tmp_path / "train" / "cats" / "2.png").write_bytes(b"nothing")
    with pytest.raises(UserError, match=r"2.png.*is no readable image"):
        read(load("image-folder", {"directory": str(tmp_path), "size": 8}).train, 1)


OWN = """
import torch

class Squares(torch.utils.data.Dataset):
    def __init__(self, n): self.n = n
    def __len__(self): return self.n
    def __getitem__(self, i): return torch.full((2,), float(i)), torch.tensor([float(i * i)])

def data(n=10): return Squares(n), Squares(3)
def split(): return torch.utils.data.random_split(Squares(8), [5, 3])
def one(): return Squares(3)
def nothing(): return 1, 2

def loss(model, inputs, targets):
    return (model(inputs) - targets).square().sum(), None
"""


def test_a_users_own_data_and_loss(tmp_path):
    (tmp_path / "own_squares.py").write_text(OWN)

    def source(function, **options):
        return SourceSpec(entrypoint=f"own_squares:{function}", directory=str(tmp_path), options=options)

    data = load_dataset(source("data", n=5))
    assert (len(data.train), len(data.test), data.input_shape) == (5, 3, (2,))
    split = load_dataset(source("split"))
    assert (len(split.train), len(split.test)) == (5, 3), "a list of two"
    inputs, targets = read(data.train, 4, 2)
    assert targets.tolist() == [[16.0], [4.0]]
    assert read(data.train)[0].shape == (0, 2)
    task = find_task(SourceSpec(name="mlp"), source("data"))
    found = task(lambda x: x[:, :1], inputs, targets)
    assert (found.total.item(), found.correct) == ((4 - 16) ** 2 + (2 - 4) ** 2, None)
    assert find_task(SourceSpec(name="mlp"), SourceSpec(name="digits")) is classification
    for function, expected in (("one", "not a pair"), ("nothing", "has no length")):
        with pytest.raises(UserError, match=expected):
            load_dataset(source(function))


def test_a_loss_that_is_not_a_sum_and_a_count_is_refused(tmp_path):
    (tmp_path / "own_loss.py").write_text("def data(): pass\ndef loss(model, x, y): return model(x)\n")
    source = SourceSpec(entrypoint="own_loss:data", directory=str(tmp_path))
    with pytest.raises(UserError, match="not the pair"):
        find_task(SourceSpec(name="mlp"), source)(lambda x: x, torch.ones(2), torch.ones(2))


def test_losses_of_parts_sum_to_the_loss_of_the_whole():
    model = torch.nn.Linear(3, 4)
    inputs, targets = torch.randn(7, 3), torch.arange(7) % 4
    whole = classification(model, inputs, targets)
    parts = [classification(model, inputs[s], targets[s]) for s in (slice(0, 3), slice(3, 3), slice(3, 7))]
    torch.testing.assert_close(sum(p.total for p in parts), whole.total)
    assert sum(int(p.correct) for p in parts) == int(whole.correct)
    assert weight(targets) == 7
