"""What people call a job or a race where there is room for a few words: with what must be known of its figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

SHORT = 13
"""An id is shown with as many characters, which say to the millisecond when it was made, or with more where these do
not tell it apart: what a list shows also names one of those that it leaves out."""


class Labelled(Protocol):
    """A job, a race, or what is known of one."""

    @property
    def rehearsed(self) -> str | None:
        """The label of a rehearsal."""
        ...

    @property
    def slowed(self) -> str | None:
        """Which workers are slowed on purpose."""
        ...


def called(name: str, what: Labelled) -> str:
    """`vgg19 (rehearsed, slowed)`."""
    marks = [mark for mark, label in (("rehearsed", what.rehearsed), ("slowed", what.slowed)) if label]
    return f"{name} ({', '.join(marks)})" if marks else name


def apart(names: Sequence[str], ids: Sequence[str]) -> list[str]:
    """Names of what stands beside one another, in their order: one that several have is followed by the short id of
    each, which commands take, too. The page does the same (`frontend/src/lib/apart.ts`)."""
    counts = Counter(names)
    short = shorten(ids)
    return [
        f"{name} ({short[id_]})" if counts[name] > 1 else name for name, id_ in zip(names, ids, strict=True)
    ]


def shorten(ids: Iterable[str]) -> dict[str, str]:
    """Each id's shortest beginning that no other one of them has, of at least SHORT characters."""
    ordered = sorted(set(ids))
    short = {}
    for place, id_ in enumerate(ordered):
        beside = [*ordered[max(place - 1, 0) : place], *ordered[place + 1 : place + 2]]
        length = max([SHORT, *(_shared(id_, other) + 1 for other in beside)])
        short[id_] = id_[:length]
    return short


def _shared(one: str, other: str) -> int:
    """Characters that both begin with."""
    return next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(one))
