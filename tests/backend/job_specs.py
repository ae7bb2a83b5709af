"""Specifications that tests submit, and what they send them with."""

from __future__ import annotations

from typing import Any

from fastapi.testclient import TestClient

JSON = {"Content-Type": "application/json"}


def job_spec(name: str = "a job", **changes: Any) -> dict[str, Any]:
    """A small job that can run; `changes` replace whole parts."""
    return {
        "name": name,
        "model": {"name": "mlp"},
        "data": {"name": "digits"},
        "strategy": {"name": "p3"},
        "cluster": {"workers": 2},
        "training": {"steps": 20, "global_batch": 32},
    } | changes


def submit(api: TestClient, name: str = "a job", **changes: Any) -> dict[str, Any]:
    """Submit a job that must be accepted."""
    answer = api.post("/api/v1/jobs", json=job_spec(name, **changes))
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found
