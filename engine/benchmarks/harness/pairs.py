"""Two things compared fairly: interleaved rounds, a ratio for each pair, the median with its interval.

A machine's speed drifts, so what is compared runs side by side in time: A B, B A, A B, ... and each ratio is taken
within one round. The interval of the median is that of the order statistics: sorted ratios k and n + 1 - k hold
the true median with probability 1 - 2 P(Binomial(n, 1/2) < k), whatever the distribution (David, Nagaraja, Order
Statistics, section 7.1). Six pairs are the fewest for 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
FEWEST_ROUNDS = 6
"""With fewer, no interval covers 95 %: nothing can be significant."""
METHOD = (
    "Interleaved rounds (order reversed every other round), one ratio per round; median of the ratios with the "
    "distribution-free interval of its order statistics, at least 95 % from six rounds on."
)


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """The median of paired ratios."""

    median: float
    low: float
    high: float
    coverage: float
    """Probability that the interval low..high holds the true median; under 0.95 with fewer than six pairs."""
    pairs: int

    @property
    def significant(self) -> bool:
        """Whether the difference from 1 is more than chance: the interval leaves 1 out, at 95 %."""
        return self.coverage >= CONFIDENCE and not self.low <= 1 <= self.high

    def __str__(self) -> str:
        mark = "" if self.coverage >= CONFIDENCE else f", only {self.coverage:.0%}"
        return f"{self.median:.3f} ({self.low:.3f} to {self.high:.3f}{mark})"


def rounds(names: Sequence[str], count: int) -> Iterator[tuple[int, str]]:
    """(round, name): every name once per round, in turned order every other round."""
    for number in range(count):
        for name in names if number % 2 == 0 else reversed(names):
            yield number, name


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Ratio:
    """The median of numerator over denominator, round by round. Raises ValueError for unequal or no rounds."""
    if len(numerators) != len(denominators) or not len(numerators):
        raise ValueError(f"{len(numerators)} and {len(denominators)} rounds: a pair needs one of each")
    ratios = np.sort(np.asarray(numerators, float) / np.asarray(denominators, float))
    count = len(ratios)
    rank = _rank(count)
    return Ratio(
        median=float(np.median(ratios)),
        low=float(ratios[rank - 1]),
        high=float(ratios[count - rank]),
        coverage=_coverage(count, rank),
        pairs=count,
    )


def _rank(count: int) -> int:
    """The largest k whose interval still covers 95 %; 1 (the whole range) where none does."""
    return max((k for k in range(1, count // 2 + 1) if _coverage(count, k) >= CONFIDENCE), default=1)


def _coverage(count: int, rank: int) -> float:
    below: float = sum(math.comb(count, i) for i in range(rank)) / 2**count
    return max(0.0, 1 - 2 * below)
