"""The two data planes, and the one in C for tests that need it."""

from __future__ import annotations

from engine.transport.in_c.build import BuildError, build
from engine.transport.in_c.library import library
from tests.facilities import unavailable

PLANES = ("python", "c")


def built() -> None:
    """It is there from now on. Skips the test where there is no compiler."""
    try:
        build()
    except BuildError as error:
        unavailable("compiler", str(error))
    library.cache_clear()
