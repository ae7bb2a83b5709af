"""digits: scikit-learn's copy of the UCI handwritten digits (Alpaydin and Kaynak, 1998), 1,797 images of 8x8.

Pixels are standardized with the training part's mean and deviation. The split is stratified and always the
same: every class gives the same share of its samples, drawn by a fixed seed, so that accuracies compare.
"""

from __future__ import annotations

import numpy as np
import torch

from engine.errors import UserError
from engine.inputs.options import DigitsOptions
from engine.inputs.source import Dataset, TensorSource

_SPLIT_SEED = 1797


def load(options: DigitsOptions) -> Dataset:
    """Inputs (n, 1, 8, 8) float32, targets (n,) int64. Raises UserError without scikit-learn."""
    try:
        from sklearn.datasets import load_digits  # noqa: PLC0415 - an extra: only this data set needs it
    except ModuleNotFoundError as error:
        raise UserError(
            "data.name", "digits", f"needs scikit-learn ({error})", "pip install scikit-learn"
        ) from error
    pixels, labels = load_digits(return_X_y=True)
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


def stratified_split(labels: np.ndarray, test_share: float) -> tuple[np.ndarray, np.ndarray]:
    """Sorted indices of the training and of the test part; each class gives `test_share` of its samples."""
    draw = np.random.default_rng(_SPLIT_SEED)
    is_test = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        members = draw.permutation(np.flatnonzero(labels == label))
        is_test[members[: round(test_share * len(members))]] = True
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)
