"""May this process build a lab? The answer is found by building a small one."""

from __future__ import annotations

import shutil
import sys
import threading

from engine.lab.lab import Lab
from engine.lab.links import Link
from engine.lab.namespace import LabError


def permitted(*, latency: bool = False) -> str | None:
    """None where a lab can be built (with `latency`: one that delays), else one sentence on what is missing.

    Takes 0.1 s and leaves nothing: what it tries is removed at once."""
    if sys.platform != "linux":
        return "network namespaces are Linux's; this is not Linux"
    missing = [tool for tool in ("ip", "tc") if shutil.which(tool) is None]
    if missing:
        return f"{' and '.join(missing)} not found: install iproute2"
    run = f"probe-{threading.get_ident()}"
    try:
        Lab.create(run, [Link(rate_bps=10**9)]).close()
    except LabError as error:
        return (
            "this process may not make network namespaces with shaped links"
            f" (root, or CAP_SYS_ADMIN and CAP_NET_ADMIN): {error}"
        )
    if latency:
        try:
            Lab.create(run, [Link(latency_ns=100_000)]).close()
        except LabError as error:
            return f"this kernel cannot delay packets (module sch_netem): {error}"
    return None
