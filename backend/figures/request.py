"""What the page asks of a figure: how wide it is, in which theme, and which steps or times it shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from backend.figures.why import Wait

Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")


@dataclass(frozen=True, kw_only=True)
class FigureRequest:
    """One request. Times are ns on the attempt's clock; None leaves the choice to the figure."""

    width: int = 1280
    """Width of the drawing in CSS pixels: decides how many spans and labels are worth sending."""
    theme: Theme = "light"
    """`light` or `dark`."""
    step: int | None = None
    """The step that the time axis counts from. None: the latest one with every event kept."""
    to_step: int | None = None
    """Last step to show; None: only `step`."""
    from_ns: int | None = None
    """Left edge of what is visible; needs `to_ns`. In a race it counts from the step's start."""
    to_ns: int | None = None
    """Right edge of what is visible; needs `from_ns`."""
    why: str | None = None
    """A wait to light up, as `Wait.text` writes it."""
    why_job: str | None = None
    """In a race: the job whose wait it is."""
    layer: int | None = None
    """Index of the layer that is lit up. The page lights layers up in what it has; only the timeline of many steps,
    which has no layers, is drawn for it."""
    links: tuple[str, ...] | None = None
    """The links that are drawn, by `LinkFacts.key`. None: the first ones."""
    attempt: int | None = None
    """Number of the attempt that is shown. None: the latest."""
    baseline: str | None = None
    """Of a speed-up: the job to measure against. None: the job's own baseline."""
    predicted: int | None = None
    """Of memory: bytes that the tensors of a worker's step are predicted to hold at the most. None: nobody asked."""

    def __post_init__(self) -> None:
        if not 200 <= self.width <= 8192:
            raise ValueError(
                f"width = {self.width}: must be from 200 to 8192 pixels. Send the drawing's width"
            )
        if self.theme not in THEMES:
            raise ValueError(f"theme = {self.theme!r}: no such theme. Known: {', '.join(THEMES)}")
        if (self.from_ns is None) != (self.to_ns is None):
            raise ValueError(f"from_ns = {self.from_ns}, to_ns = {self.to_ns}: give both or neither")
        if self.from_ns is not None and self.to_ns is not None and self.to_ns <= self.from_ns:
            raise ValueError(f"to_ns = {self.to_ns}: must be after from_ns = {self.from_ns}. Swap them")
        if self.step is not None and self.to_step is not None and self.to_step < self.step:
            raise ValueError(f"to_step = {self.to_step}: must not be before step = {self.step}. Swap them")

        if self.why is not None:
            Wait.parse(self.why)

    @property
    def wait(self) -> Wait | None:
        """The wait to light up."""
        return None if self.why is None else Wait.parse(self.why)

    @property
    def narrow(self) -> bool:
        """A phone: short labels, fewer of them."""
        return self.width < 640
