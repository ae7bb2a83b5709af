"""Gangs: all processes of one attempt, started, watched and stopped together."""
