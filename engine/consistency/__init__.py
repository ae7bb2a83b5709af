"""Consistency: how far may workers drift from one another (`engine/axes/consistency.py`)?

A mode is one file with a class: `of(consistency, workers)` makes the policy (`policy.py`) that a plan asks for, and
`check(consistency, workers)` raises UserError for settings that it does not have.
"""
