"""Text for tests: lines of very different lengths, the same every time."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def write_text(path: Path, lines: int, seed: int = 0) -> list[str]:
    """Write and return lines of one to twelve words; every seventh is blank."""
    draw = np.random.default_rng(seed)
    syllables = ["ba", "do", "ki", "lu", "me", "no", "ra", "si", "tu", "ve"]

    def word() -> str:
        return "".join(draw.choice(syllables, draw.integers(1, 4)))

    written = [
        "" if number % 7 == 6 else " ".join(word() for _ in range(draw.integers(1, 13)))
        for number in range(lines)
    ]
    path.write_text("\n".join(written) + "\n", encoding="utf-8")
    return written
