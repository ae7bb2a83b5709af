"""digits: scikit-learn's copy of the UCI handwritten digits (Alpaydin and Kaynak, 1998), 1,797 images of 8x8.

Pixels are standardized with the training part's mean and deviation. The split is stratified and always the
same: every class gives the same share of its samples, drawn by a fixed seed, so that accuracies compare.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from engine.errors import UserError
from engine.inputs.options import DigitsOptions
from engine.inputs.source import Dataset, TensorSource

_SPLIT_SEED = 1797


def load(options: DigitsOptions) -> Dataset:
    """Inputs (n, 1, 8, 8) float32, targets (n,) int64. Raises UserError without scikit-learn."""
    pixels, labels = _read()
    train, test = stratified_split(labels, options.test_share)
    mean, deviation = pixels[train].mean(), pixels[train].std()
    inputs = torch.from_numpy(((pixels - mean) / deviation).astype(np.float32)).reshape(-1, 1, 8, 8)
    targets = torch.from_numpy(labels.astype(np.int64))
    return Dataset(
        name="digits",
        train=TensorSource(inputs[train], targets[train]),
        test=TensorSource(inputs[test], targets[test]),
        input_shape=(1, 8, 8),
        classes=10,
    )


@cache
def _read() -> tuple[np.ndarray, np.ndarray]:
    """Pixels (1797, 64) and labels (1797,) from the installed package's file, which takes a tenth of the time that
    importing scikit-learn takes in every worker; once for each process. Nobody writes to them."""
    package = find_spec("sklearn")
    if package is None or package.origin is None:
        raise UserError(
            "data.name", "digits", "needs scikit-learn, which is not installed", "pip install scikit-learn"
        )
    file = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    table = np.loadtxt(file, delimiter=",")
    return table[:, :-1], table[:, -1]


def stratified_split(labels: np.ndarray, test_share: float) -> tuple[np.ndarray, np.ndarray]:
    """Sorted indices of the training and of the test part; each class gives `test_share` of its samples."""
    draw = np.random.default_rng(_SPLIT_SEED)
    is_test = np.zeros(len(labels), dtype=bool)
    for label in sorted(set(labels.tolist())):  # np.unique would load numpy.ma, in each worker, for 11 ms
        members = draw.permutation(np.flatnonzero(labels == label))
        is_test[members[: round(test_share * len(members))]] = True
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)
