"""State: what a process keeps of its units: memory, gradients, versions, optimizers, and the record of what it did."""
