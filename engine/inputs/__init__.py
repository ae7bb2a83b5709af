"""Inputs: data sets, tasks and the loader (`engine/axes/inputs.py`)."""
