"""What the benchmarks share: running jobs, interleaved pairs, the machine, and the written result."""
