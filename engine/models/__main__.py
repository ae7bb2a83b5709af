"""Describe a model in a short process of its own, so that who asks never imports torch:

    python -m engine.models < request.json > description.json

A number after it is a pipe's descriptor: when its other end closes, this process ends. A second one says how many bytes
of memory the process may allocate.

Most of its time goes to imports, and a third of that went to collecting garbage where there is none.
"""

# ruff: noqa: E402, F401 - everything is to be imported before the collector is on again

from __future__ import annotations

import gc

gc.disable()

import sys

from engine.lifeline import end_with
from engine.models.memory_limit import set_limit

if len(sys.argv) > 1:
    end_with(int(sys.argv[1]))

if len(sys.argv) > 2:
    set_limit(int(sys.argv[2]))

import torch._dynamo  # the first operation without values would load it

from engine.models.answering import answered
from engine.models.describe import describe_request

gc.freeze()
gc.enable()

if __name__ == "__main__":
    sys.exit(answered(lambda request: describe_request(request).to_dict()))
