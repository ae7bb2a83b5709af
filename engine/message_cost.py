"""What a message costs on this machine, for who makes plans: measured once, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

_DEADLINE_S = 120.0


@cache
def here() -> float:
    """Seconds of a processor for each message between two processes of this machine, its two ends together
    (`engine/transport/message_cost.py`). The first call takes one to three seconds, later ones answer the same. Raises
    RuntimeError where it cannot be measured."""
    command = [sys.executable, "-m", "engine.transport.message_cost"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE_S, check=True)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"it took longer than {_DEADLINE_S:g} s") from None
    except subprocess.CalledProcessError as error:
        raise RuntimeError(error.stderr.strip().rpartition("\n")[2]) from None
    return float(done.stdout) / 1e6
