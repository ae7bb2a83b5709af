"""How fast this machine's processors are, so that a budget of processor seconds means the same on all.

The unit is a processor that counts to ten million in Python in one second. What others do on the same hardware changes
this by the minute, so that it is asked again and again while what is counted runs.
"""

from __future__ import annotations

import subprocess
import sys

_PART = 10
"""Of ten million a tenth is counted, which takes a tenth of a second."""
_COUNT = f"""
import time
begun = time.process_time()
total = 0
for number in range({10_000_000 // _PART}):
    total += number
print(time.process_time() - begun)
"""


def count_s() -> float:
    """The processor seconds that counting to ten million would take here and now."""
    command = [sys.executable, "-S", "-c", _COUNT]
    return _PART * float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
