"""Memory: what happens to a layer's activations between forward and backward, one mechanism per file.

`activations.py` installs the mechanisms that a plan names on the calls of a model's modules; `blocks.py` says on which.
"""
