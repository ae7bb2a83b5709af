"""Consistency: how far may workers drift from one another (`engine/axes/consistency.py`)?

A mode is one file with a class: `settings` are its settings in a plan, `of(settings, workers)` makes the policy
(`policy.py`) that they ask for, and `check(settings, workers)` raises UserError for settings that it does not have.
"""
