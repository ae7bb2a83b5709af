"""What the process that forks those that draw imports (`warm_drawing.py`)."""

# ruff: noqa: E402, F401 - the imports are the purpose, and they are to come between these two lines

from __future__ import annotations

import gc

gc.disable()  # nothing of what follows is garbage
import backend.figures.answers
import backend.services.drawing

gc.freeze()  # forks leave it alone, so that they share it
gc.enable()
