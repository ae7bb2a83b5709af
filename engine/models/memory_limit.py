"""A limit of memory on the process that describes a model, or predicts what it holds, and what breaking it looks like.
No torch here.

The limit is on what a process allocates (RLIMIT_DATA), not on what it uses: an allocation beyond it fails at once,
where the machine would otherwise grant it and end some process later. The code that runs under it cannot raise it,
and it holds for each process that this one starts.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator

from engine.errors import UserError

GIB = 2**30
DESCRIBED = "to be described"
LESS = {DESCRIBED: "Build less when the model is constructed"}
"""Of a purpose: what takes memory then; for all others the model itself does."""
REFUSED = ("can't allocate memory", "std::bad_alloc", "Cannot allocate memory")
"""What torch, a library in C++ and the system say."""


def set_limit(size: int) -> None:
    """Hold this process to `size` bytes, from now on."""
    resource.setrlimit(resource.RLIMIT_DATA, (size, size))


def broken(error: BaseException, subject: str, purpose: str) -> UserError | None:
    """The limit that `error`, or what caused it, broke; None where it has another cause or there is no limit.
    `purpose`: what the process was asked for, as `to be described`."""
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if limit == resource.RLIM_INFINITY or not any(map(_refused, _with_causes(error))):
        return None
    rule = f"needs more than {gib(limit)} of memory {purpose}"
    remedy = f"{LESS.get(purpose, 'Use a smaller model')}, or allow more with TRAINYARD_DESCRIPTION_GIB"
    return UserError("model", subject, rule, remedy)


def _refused(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or any(text in str(error) for text in REFUSED)


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    """The error, and whatever it came from or came while another was handled."""
    waiting, seen = [error], set()
    while waiting:
        found = waiting.pop()
        if id(found) not in seen:
            seen.add(id(found))
            yield found
            waiting += [cause for cause in (found.__cause__, found.__context__) if cause is not None]


def gib(size: int) -> str:
    """Bytes, for a person."""
    return f"{size / GIB:.3g} GiB"
