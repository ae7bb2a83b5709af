"""Data sets: one file each, listed in `engine/inputs/registry.py`."""
