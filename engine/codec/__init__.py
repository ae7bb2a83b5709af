"""Codecs: what travels (`engine/axes/codec.py`)."""
