"""Coordination: what workers tell one another outside the training exchange."""
