"""Figures as plotly has them, of what a server answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import plotly.graph_objects as go


def drawn(text: str) -> go.Figure:
    """The figure that the server wrote."""
    import plotly.io  # noqa: PLC0415 - heavy, and only figures need it

    return plotly.io.from_json(text, skip_invalid=True)
