"""Look-alike: a subclass that a parameter has for a while in place of its own class, so that who uses it is noticed.

It has the name of its own class and equals it: `type(p) == Parameter`, `type(p) in {Parameter}`,
`isinstance(q, type(p))` and `torch.optim`'s choice of the faster way (`foreach`), which it makes by class, go on.
`type(p) is Parameter` cannot be met; `class_identity.py` finds code that asks so.
"""

from __future__ import annotations

import functools
from typing import Any


def lookalike(own: type, members: dict[str, Any]) -> type:
    """A subclass of `own` with other `members`. Who calls it, as in `type(p)(...)`, gets one of `own`."""

    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        return own(*args, **kwargs)

    looks = {"__module__": own.__module__, "__qualname__": own.__qualname__}
    return _equal_kind(type(own))(
        own.__name__, (own,), {**looks, "_trainyard_own": own, "__new__": new, **members}
    )


def own_class(value: Any) -> type:
    """The class of `value`, or the one that its class looks like."""
    return _own(type(value))


def _own(kind: type) -> type:
    own: type = getattr(kind, "_trainyard_own", kind)
    return own


@functools.cache
def _equal_kind(kind: type) -> Any:
    """The class of such classes: a subclass of `kind`, the class of the own class."""

    def equal(cls: type, other: object) -> bool:
        return isinstance(other, type) and _own(cls) is _own(other)

    members = {
        "__eq__": equal,
        "__hash__": lambda cls: type.__hash__(_own(cls)),
        "__instancecheck__": lambda cls, value: isinstance(value, _own(cls)),
        "__subclasscheck__": lambda cls, other: issubclass(other, _own(cls)),
    }
    return type(kind)(kind.__name__, (kind,), members)
