"""Liveness: what a step of training holds in memory, found by running it on tensors without values.

`ledger.py` counts, `host_kernels.py` says what the host's kernels do otherwise, `peak.py` runs steps under a plan's
memory mechanisms, `blocks.py` says what each block of a model saves for backward.
"""
