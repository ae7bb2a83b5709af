"""A user's own torch.autograd.Function stays whole where torch.fx traces: its backward is not what the operations of
its forward would have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import fx


@contextmanager
def whole_functions() -> Iterator[None]:
    """While the block runs, a user's own torch.autograd.Function that gets a stand-in for a tensor is one node:
    torch.fx would look into its forward, and lose its backward."""
    owner: Any = torch.autograd.Function
    apply = vars(owner)["apply"]

    def stands_for(cls: type[torch.autograd.Function], *args: Any, **options: Any) -> Any:
        proxies: list[fx.Proxy] = []
        fx.node.map_aggregate((args, options), lambda a: proxies.append(a) if isinstance(a, fx.Proxy) else a)
        if not proxies:
            return apply.__func__(cls, *args, **options)
        return proxies[0].tracer.create_proxy("call_function", _applying(cls), args, options)

    owner.apply = classmethod(stands_for)
    try:
        yield
    finally:
        owner.apply = apply


@cache
def _applying(cls: type[torch.autograd.Function]) -> Callable[..., Any]:
    """Always the same function for a class: graphs compare what they call."""

    def applied(*args: Any, **options: Any) -> Any:
        return cls.apply(*args, **options)

    applied.__name__ = f"apply_{cls.__name__}"
    return applied
