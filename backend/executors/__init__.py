"""Executors start attempts somewhere and tell how they ended: one file each, one contract (`base.py`)."""
