"""Says which of the modules that it is given are loaded where it begins, as in a fork of `warm.py`."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    print(*(name for name in sys.argv[1:] if name in sys.modules))
