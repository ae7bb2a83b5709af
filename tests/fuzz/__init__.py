"""Differential fuzzing: random networks and training loops, trained by the engine and by a plain PyTorch loop."""
