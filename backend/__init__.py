"""The control plane: a FastAPI service over the engine. Of the engine it imports what needs no torch."""
