"""Outer optimizers: how the averaged step is taken (`engine/axes/outer.py`)."""
