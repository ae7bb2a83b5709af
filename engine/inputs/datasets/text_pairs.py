"""text-pairs: pairs of sentences of different lengths, as a translation model reads them.

With `targets`, line i of the files in `paths` is translated by line i of those in `targets`. Without, any text will do:
each line's translation is the line that follows it. Pairs with a blank line, or with a side of more than `length`
words, are left out. One vocabulary serves both sides.

Both rows of a batch are as long as its longest sentence. Padding is -1 among the inputs and IGNORED among the targets:
it has no loss, and no weight in the loss's mean.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from engine.errors import UserError
from engine.inputs import text_files, vocabulary
from engine.inputs.datasets.text import spread
from engine.inputs.options import TextPairsOptions
from engine.inputs.source import Dataset
from engine.inputs.task import IGNORED

_PADDING = -1


class PairSource:
    """Some of the pairs of a text's pieces."""

    def __init__(self, words: vocabulary.Encoded, sources: np.ndarray, targets: np.ndarray) -> None:
        """`sources`, `targets`: of each pair, the pieces by number."""
        lengths = np.diff(words.starts)
        self._tokens = words.tokens
        self._starts = words.starts[sources], words.starts[targets]
        self._lengths = lengths[sources], lengths[targets]

    def __len__(self) -> int:
        return len(self._lengths[0])

    def batch(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """See Source.batch: inputs (n, 2, longest), the source and the target moved right; targets (n, longest)."""
        longest = max(int(lengths[indices].max(initial=1)) for lengths in self._lengths)
        source, target = (
            self._rows(starts[indices], lengths[indices], longest)
            for starts, lengths in zip(self._starts, self._lengths, strict=True)
        )
        begin = np.full((len(indices), 1), vocabulary.BEGIN, dtype=np.int64)
        moved = np.concatenate([begin, np.where(target[:, 1:] == _PADDING, _PADDING, target[:, :-1])], axis=1)
        inputs = np.stack([source, moved], axis=1)
        return torch.from_numpy(inputs), torch.from_numpy(np.where(target == _PADDING, IGNORED, target))

    def target_count(self, indices: np.ndarray) -> int:
        """See CountingSource.target_count: the words of the targets, ends included."""
        return int(self._lengths[1][indices].sum())

    @property
    def longest(self) -> int:
        """The index of the sample with the longest side."""
        return int(np.maximum(*self._lengths).argmax())

    def _rows(self, starts: np.ndarray, lengths: np.ndarray, width: int) -> np.ndarray:
        """Sentences (n, width) int64, padded on the right."""
        places = np.arange(width)
        at = np.minimum(starts[:, None] + places, len(self._tokens) - 1)
        return np.where(places < lengths[:, None], self._tokens[at].astype(np.int64), _PADDING)


def load(options: TextPairsOptions) -> Dataset:
    """Inputs (n, 2, longest of the batch) int64, targets (n, longest of the batch) int64.

    Raises UserError for files that are missing or no text, sides that do not match, a vocabulary that the text does not
    give, and where no two pairs are short enough.
    """
    files = text_files.find(options.paths, options.pattern, "data.options.paths")
    others = (
        text_files.find(options.targets, options.pattern, "data.options.targets") if options.targets else []
    )

    def pieces() -> list[str]:
        lines = _lines(text_files.read(files, "data.options.paths"))
        if not others:
            return lines
        translated = _lines(text_files.read(others, "data.options.targets"))
        if len(lines) != len(translated):
            raise UserError(
                "data.options.targets",
                list(options.targets),
                f"{len(translated)} lines for {len(lines)} lines of `paths`",
                "Give one line for each line, in files of the same order",
            )
        return lines + translated

    kind = f"translations-{len(files)}" if others else "lines"
    words = vocabulary.encoded([*files, *others], kind, options.vocabulary, pieces, "data.options.paths")
    lengths = np.diff(words.starts)
    sources, targets = np.split(np.arange(len(lengths)), 2) if others else _neighbours(len(lengths))
    blank = 1  # a piece of nothing but its end
    fits = [(lengths[side] > blank) & (lengths[side] <= options.length) for side in (sources, targets)]
    kept = np.flatnonzero(fits[0] & fits[1])
    train, test = (kept[part] for part in spread(len(kept), options.test_share))
    if not len(train):
        raise UserError(
            "data.options.length",
            options.length,
            f"{len(kept)} of {len(sources)} pairs of lines have at most that many words, ends included, on both sides",
            "Use more, or give more text",
        )
    source = PairSource(words, sources[train], targets[train])
    return Dataset(
        name="text-pairs",
        train=source,
        test=PairSource(words, sources[test], targets[test]),
        input_shape=(2, options.length),
        classes=options.vocabulary,
        example=source.longest,
        input_words=(options.vocabulary, options.vocabulary),
    )


def _neighbours(pieces: int) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(pieces - 1), np.arange(1, pieces)


def _lines(texts: list[str]) -> list[str]:
    """The lines of all files without their margins; a blank one behind each file keeps files apart."""
    return [line.strip() for text in texts for line in [*text.removesuffix("\n").split("\n"), ""]]
