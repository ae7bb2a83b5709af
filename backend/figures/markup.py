"""Text of other people inside of a figure: plotly.js takes what it draws for markup, and would make links of it."""

from __future__ import annotations


def as_text(text: str) -> str:
    """What plotly.js draws as `text`, whatever is in it: in annotations, ticks, names of traces, hover texts and their
    templates, whose fields begin with `%{`."""
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return plain.replace("%{", "&#37;{")
