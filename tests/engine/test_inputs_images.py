"""Images: what is random depends on seed, pass and sample alone, and every step of it is what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.errors import UserError
from engine.inputs.images import ImageStage, sample_numbers
from engine.inputs.reading import read
from engine.inputs.registry import load
from engine.inputs.source import StagedSource, Turn
from tests.engine.test_inputs_datasets import write_cifar

TURN = Turn(seed=3, epoch=2)


def stage(**changes: Any) -> ImageStage:
    given = {"size": 6, "scale": 255, "mean": (0.5, 0.4, 0.3), "deviation": (0.2, 0.3, 0.4), **changes}
    return ImageStage(**given)


def by_hand(image: np.ndarray, window: tuple[int, int, int], made: ImageStage) -> np.ndarray:
    """The same of one image (3, height, width), in NumPy."""
    top, left, flipped = window
    padded = np.pad(image, ((0, 0), (made.padding,) * 2, (made.padding,) * 2))
    cut = padded[:, top : top + made.size, left : left + made.size]
    values = (cut[:, :, ::-1] if flipped else cut).astype(np.float32) / np.float32(made.scale)
    if made.mean is None or made.deviation is None:
        return values
    mean, deviation = (np.array(v, dtype=np.float32).reshape(3, 1, 1) for v in (made.mean, made.deviation))
    return (values - mean) / deviation


@pytest.mark.parametrize(
    "made",
    [
        stage(),
        stage(mean=None, deviation=None, flip=True),
        stage(padding=2, shift=2, flip=True),
        stage(size=4, shift=1, flip=True),
        stage(scale=1, padding=1, shift=1),
    ],
    ids=["plain", "values from 0 to 1", "padded", "window", "bytes"],
)
def test_each_image_is_cut_flipped_and_standardized(made: ImageStage) -> None:
    images = np.random.default_rng(0).integers(0, 256, (20, 3, 6, 6), dtype=np.uint8)
    for turn in (TURN, None):
        windows = made.draw(np.arange(20), turn)
        found = made(torch.from_numpy(images), windows)
        assert found.is_contiguous()
        assert found.dtype == torch.float32
        wanted = [by_hand(i, tuple(w), made) for i, w in zip(images, windows.tolist(), strict=True)]
        assert np.array_equal(found.numpy(), np.stack(wanted))


def test_what_is_drawn_follows_from_seed_pass_and_sample_alone() -> None:
    made = stage(padding=2, shift=2, flip=True)
    everything = made.draw(np.arange(500), TURN)
    some = np.array([7, 499, 7, 0])
    assert torch.equal(made.draw(some, TURN), everything[some])
    assert not torch.equal(made.draw(np.arange(500), Turn(seed=3, epoch=3)), everything)
    assert not torch.equal(made.draw(np.arange(500), Turn(seed=4, epoch=2)), everything)
    assert made.draw(np.arange(3), None).tolist() == [[2, 2, 0]] * 3
    assert made.draw(np.arange(0), TURN).shape == (0, 3)
    for column, values in ((0, range(5)), (1, range(5)), (2, range(2))):
        counts = np.bincount(everything[:, column].numpy(), minlength=len(values))
        assert len(counts) == len(values)
        # Four standard deviations of a binomial count.
        share = 1 / len(values)
        assert (abs(counts - 500 * share) < 4 * np.sqrt(500 * share * (1 - share))).all()


def test_the_numbers_are_splitmix64s() -> None:
    """The first outputs of its generator with seed 1234567, as published with it."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    state = np.uint64(1234567)
    gamma = np.uint64(0x9E3779B97F4A7C15)
    from engine.inputs.images import _mixed  # noqa: PLC0415

    with np.errstate(over="ignore"):
        found = [int(_mixed(state + np.uint64(n) * gamma)) for n in range(3)]
    assert found == published
    assert len(np.unique(sample_numbers(TURN, np.arange(1000), 3))) == 3000


def test_training_is_changed_at_random_and_the_test_is_not(tmp_path: Path) -> None:
    write_cifar(tmp_path, binary=True)
    plain = load("cifar10", {"directory": str(tmp_path)})
    changed = load("cifar10", {"directory": str(tmp_path), "shift": 4, "flip": True})
    assert isinstance(changed.train, StagedSource)
    indices = np.arange(4)
    assert torch.equal(read(changed.test, indices)[0], read(plain.test, indices)[0])
    assert torch.equal(read(changed.train, indices)[0], read(plain.train, indices)[0]), "no pass: as they are"
    assert torch.equal(read(plain.train, indices, TURN)[0], read(plain.train, indices)[0])
    first, again, other = (
        read(changed.train, indices, turn)[0] for turn in (TURN, TURN, Turn(seed=3, epoch=0))
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    values = load("cifar10", {"directory": str(tmp_path), "normalize": False}).train
    least, most = read(values, np.arange(20))[0].aminmax()
    assert (float(least), float(most)) == (0, 1)


def test_an_image_is_not_moved_out_of_sight(tmp_path: Path) -> None:
    for name, shift in (("cifar10", 33), ("cifar10", -1), ("image-folder", -1)):
        with pytest.raises(UserError) as caught:
            load(name, {"directory": str(tmp_path), "shift": shift})
        assert caught.value.field == "data.options.shift"
