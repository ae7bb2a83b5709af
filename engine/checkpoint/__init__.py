"""Checkpoints: what another attempt at a job goes on from, on a disk that all of its processes see."""
