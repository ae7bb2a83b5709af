"""From which step an attempt goes on: a metric that worker 0 records before it trains. What earlier attempts recorded
of that step and later ones stays theirs: it was run again."""

RESUMED = "resumed_step"
"""The metric's name; its step and its value are the step of the checkpoint."""
