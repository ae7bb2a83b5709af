"""The runtime: the training loop, the processes that run it, checkpoints."""
