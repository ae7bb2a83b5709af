"""Characters that a terminal, or who reads a page, should not get as they are.

They would drive the terminal (escape sequences, a bell), or show others in another order than they have. In text for
people each is written out, `\\x1b`. In JSON and YAML, which programs read again, by the format's own escapes.
"""

from __future__ import annotations

_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
_ORDER = (0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Characters that change the direction of those after them."""
_HIDDEN = [code for code in (*_CONTROLS, *_ORDER) if chr(code) not in "\n\t"]
_WRITTEN_OUT = {code: ascii(chr(code))[1:-1] for code in _HIDDEN}
_IN_JSON = {code: f"\\u{code:04x}" for code in _HIDDEN}


def visible(text: str) -> str:
    """Text that other people wrote, for people. Lines and tabs stay."""
    return text.translate(_WRITTEN_OUT)


def visible_json(text: str) -> str:
    """JSON that says the same: between its texts none of these characters is allowed, and inside of one an escape is
    the character."""
    return text.translate(_IN_JSON)
