"""Describe a model in a short process of its own, so that who asks never imports torch:

    python -m engine.models < request.json > description.json

Most of its time goes to imports, and a third of that went to collecting garbage where there is none.
"""

# ruff: noqa: E402, F401 - everything is to be imported before the collector is on again

from __future__ import annotations

import gc

gc.disable()

import sys

import torch._dynamo  # the first operation without values would load it

from engine.models.describe import main

gc.freeze()
gc.enable()

if __name__ == "__main__":
    sys.exit(main())
