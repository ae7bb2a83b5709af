"""The training engine: plans, exchanges, codecs, ordering, memory, simulation and metrics. Never imports `backend`."""
