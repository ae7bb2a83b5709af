"""What tests, and who looks at the pages, share: two small jobs, a baseline and P3 on a shaped network, one whose
workers drift, and a small race."""

from __future__ import annotations

from backend.client import Client
from tests.backend.job_specs import job_spec
from tests.e2e.complete import with_all_telemetry

RATE = 20_000_000
"""bit/s"""
STEPS = {"parameter-server": 10, "p3": 12}
OPTIONS = {"parameter-server": {}, "p3": {"slice_size": 200}}
"""Slices so small that a step's events fill more than a page, and those of all steps are more than bars can show."""


def record(client: Client) -> list[str]:
    """Train both to their last telemetry: the baseline's id and P3's."""
    ids: list[str] = []
    for name, steps in STEPS.items():
        spec = job_spec(
            f"recorded {name}",
            model={"name": "mlp", "options": {"hidden": 64}},
            strategy={"name": name, "options": OPTIONS[name]},
            network={"rate": f"{RATE // 10**6}Mbit"},
            training={"steps": steps, "global_batch": 32, "target_accuracy": 0.01},
            baseline=ids[0] if ids else None,
        )
        job = client.wait(client.submit(spec).id, timeout_s=150)
        assert job.state == "succeeded", job.message
        with_all_telemetry(client, job.id)
        ids.append(job.id)
    return ids


def record_drifting(client: Client) -> str:
    """Train a job whose workers do not wait for one another to its last telemetry: its id."""
    spec = job_spec(
        "recorded async", strategy={"name": "async-sgd"}, training={"steps": 12, "global_batch": 32}
    )
    job = client.wait(client.submit(spec).id, timeout_s=150)
    assert job.state == "succeeded", job.message
    with_all_telemetry(client, job.id)
    return job.id


def record_race(client: Client) -> str:
    """Race two strategies at two rates so low that the links limit them, once, to the end: its id. It has all that a
    race's page may show, one who cannot run and what to try next too, but no verdict: that takes three rounds."""
    spec = job_spec("looked at", training={"steps": 10, "global_batch": 32})
    members = [{"strategy": name} for name in ("parameter-server", "ring-allreduce-overlap", "ddp")]
    race = client.start_race({"job": spec, "members": members, "rates": ["2Mbit", "8Mbit"], "rounds": 1})
    assert client.wait_for_race(race.id).state == "finished"
    return race.id
