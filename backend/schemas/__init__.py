"""What travels over the API, as pydantic models. Jobs and plans are the engine's own dataclasses."""
