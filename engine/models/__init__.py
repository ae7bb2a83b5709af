"""Models: one file per family, listed in `registry.py` without importing torch."""
