"""Specifications that tests submit, and what they send them with."""

from __future__ import annotations

from pathlib import Path
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


def unlucky_spec(directory: Path) -> dict[str, Any]:
    """A job whose first attempt fails with an error and much to say, and whose second one says little and succeeds."""
    (directory / "unlucky.py").write_text(
        "from pathlib import Path\n"
        "from torch import nn\n"
        "MARK = Path(__file__).with_suffix('.failed')\n"
        "class Unlucky(nn.Sequential):\n"
        "    def forward(self, batch):\n"
        "        if not batch.is_meta and not MARK.exists():\n"
        "            MARK.touch()\n"
        "            print('the first attempt', 'x' * 5000, flush=True)\n"
        "            raise RuntimeError('bad luck')\n"
        "        if not batch.is_meta and self.training:\n"
        "            print('the second attempt', flush=True)\n"
        "        return super().forward(batch)\n"
        "def build():\n"
        "    return Unlucky(nn.Flatten(), nn.Linear(64, 10))\n"
    )
    return job_spec(
        "unlucky",
        model={"entrypoint": "unlucky:build", "directory": str(directory)},
        strategy={"name": "single"},
        cluster={"workers": 1},
        training={"steps": 2, "global_batch": 32},
        retry={"times": 1, "backoff_s": 1},
    )


def submit(api: TestClient, name: str = "a job", **changes: Any) -> dict[str, Any]:
    """Submit a job that must be accepted."""
    answer = api.post("/api/v1/jobs", json=job_spec(name, **changes))
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found
