"""Races: one model under several strategies, each measured in several rounds.

Pure: what is asked for (`spec`), which jobs that makes (`field`) in which order (`order`), and what their figures say
(`ranking`). `services/races.py` stores them, and `services/racing.py` runs their jobs.
"""
