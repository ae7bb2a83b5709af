"""What figures say about a job and its links besides the measurements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from backend.db.models import Attempt, Job


@dataclass(frozen=True, kw_only=True)
class LinkFacts:
    """A link that a party reported on."""

    party: int
    interface: str
    host: str
    rate_bps: int | None
    """Per direction; None where it is not known."""
    rate_source: str


@dataclass(frozen=True, kw_only=True)
class JobFacts:
    """What figures say about a job besides its measurements."""

    id: str
    name: str
    state: str
    strategy: str
    model: str
    data: str
    workers: int
    global_batch: int
    threads: int
    device: str
    precision: str
    rate: str | None
    """Limit of the network as the job gave it, paced in software."""
    baseline_id: str | None
    started_unix_ns: int | None
    ended_unix_ns: int | None
    layers: tuple[str, ...]
    """Names by layer index."""
    parties: tuple[str, ...]
    """Names by party number."""
    attempt: int | None
    """The latest attempt's id; None while the job waits."""

    def layer(self, index: int) -> str:
        """A layer's name; events of no layer have none."""
        if index < 0:
            return ""
        return self.layers[index] if index < len(self.layers) else f"layer {index}"

    def party(self, index: int) -> str:
        return self.parties[index] if 0 <= index < len(self.parties) else f"party {index}"


def job_facts(job: Job, attempt: Attempt | None) -> JobFacts:
    spec = job.spec
    cluster, training = spec.get("cluster", {}), spec["training"]
    layers = sorted((job.description or {}).get("layers", []), key=lambda layer: layer["index"])
    return JobFacts(
        id=job.id,
        name=job.name,
        state=job.state,
        strategy=spec.get("strategy", {}).get("name", "single"),
        model=_source_name(spec["model"]),
        data=_source_name(spec["data"]),
        workers=cluster.get("workers", 1),
        global_batch=training.get("global_batch", 32),
        threads=cluster.get("threads", 1),
        device=cluster.get("device", "auto"),
        precision=training.get("precision", "float32"),
        rate=spec.get("network", {}).get("rate"),
        baseline_id=job.baseline_id,
        started_unix_ns=job.started_unix_ns,
        ended_unix_ns=job.ended_unix_ns,
        layers=tuple(layer["name"] for layer in layers),
        parties=tuple(attempt.parties) if attempt else (),
        attempt=attempt.id if attempt else None,
    )


def _source_name(source: dict[str, Any]) -> str:
    """`vgg-small`, or `vgg-small (classes=10)`: equal texts are equal sources."""
    options = ", ".join(f"{key}={value}" for key, value in sorted((source.get("options") or {}).items()))
    name = source.get("name") or source.get("entrypoint") or "?"
    return f"{name} ({options})" if options else name
