"""The axes of a plan: one file for each question, with all its answers by name, the ones not built yet included.

What a value does is in the package of the same name, which is imported only where it runs.
"""
