"""What names must look like, as the API's document has it, and in words for who is refused."""

from __future__ import annotations

USER = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,99}$"
PROJECT = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"

_BEGINS = "must begin with a letter or a digit, and have at most 100 characters: letters, digits, and"
IN_WORDS = {
    USER: (f"{_BEGINS} . _ @ -", "Write it without other characters, such as ada@example.org"),
    PROJECT: (f"{_BEGINS} . _ -", "Write it without other characters, such as vision-2"),
}
"""Of each pattern: the rule and the remedy."""
