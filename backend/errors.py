"""What keeps the server from starting or going on, and is no mistake in a request. Imports nothing."""

from __future__ import annotations


class SurroundingsError(RuntimeError):
    """Something that the server stands on does not do what it must: the message has the reason and the remedy."""
