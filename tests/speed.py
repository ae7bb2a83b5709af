"""How fast this machine is at what the suite mostly does, so that a budget of processor seconds means the same on all.

Most of the suite's time goes to processes that begin, load PyTorch and touch fresh memory. The unit is a machine that
loads PyTorch in one processor second. What others do on the same hardware changes this by the minute, so that it is
asked again and again while what is counted runs. (A loop that counts says little: it needs no memory.)
"""

from __future__ import annotations

import subprocess
import sys

_LOAD = "import time, torch; print(time.process_time())"


def load_s() -> float:
    """The processor seconds that a process takes here and now to begin and to load PyTorch."""
    command = [sys.executable, "-c", _LOAD]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
