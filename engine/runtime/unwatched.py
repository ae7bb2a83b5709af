"""Unwatched: which parameters nobody would be told of who reads them, because of what a user's code does."""

from __future__ import annotations

from engine.runtime.class_identity import asks
from engine.runtime.own_dispatch import dispatches


def why_unwatched(own: type) -> str:
    """Why a parameter of the class `own` is not watched, as "model.py, line 12, does this"; empty where it may be."""
    if place := asks(own):
        return f"{place}, compares the class of its parameters by identity"
    if place := dispatches():
        return f"{place}, decides itself what PyTorch's functions do with tensors"
    return ""
