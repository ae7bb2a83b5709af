"""Replicas: one worker's model, and how it is kept in step with the others'."""
