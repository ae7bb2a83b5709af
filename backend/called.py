"""What people call a job or a race where there is room for a few words: with what must be known of its figures."""

from __future__ import annotations

from typing import Protocol


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
