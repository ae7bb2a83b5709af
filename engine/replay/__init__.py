"""Replay: what a rehearsal trains, a model that waits as long as its profile says and gives real gradients."""
