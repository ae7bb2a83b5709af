"""Placement: where a layer is computed when not on every worker (`engine/axes/placement.py`)."""
