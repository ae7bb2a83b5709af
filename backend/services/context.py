"""Everything that requests need, made once when the server starts."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from anyio import CapacityLimiter

from backend.db import Database
from backend.ingest import BODIES_BYTES, UNPACKED_BYTES, Room
from backend.services.access import Access
from backend.services.audit import Audit
from backend.services.checkpoints import CheckpointReader
from backend.services.exports import Exports
from backend.services.figures import Figures
from backend.services.held import HeldReader
from backend.services.inventory import Inventory
from backend.services.job_figures import JobFigures
from backend.services.jobs import Jobs
from backend.services.labels import Labels
from backend.services.links import LinkReader
from backend.services.lists import Lists
from backend.services.maintenance import Maintenances
from backend.services.measures import Measures
from backend.services.nodes import Nodes
from backend.services.notices import Hub
from backend.services.paying import CodecsPaying
from backend.services.peaks import Peaks
from backend.services.people import People
from backend.services.profiles import Profiles
from backend.services.projects import Projects
from backend.services.races import Races
from backend.services.secrets import Secrets
from backend.services.speed_ups import SpeedUps
from backend.services.staleness import StalenessReader
from backend.services.telemetry import Telemetry
from backend.services.views import Views
from backend.services.webhooks import Webhooks
from backend.settings import Settings

INGEST_THREADS = 8
"""There is one writer: more could only wait for it."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """The services of one running server."""

    settings: Settings
    access: Access
    people: People
    audit: Audit
    webhooks: Webhooks
    secrets: Secrets
    database: Database
    inventory: Inventory
    nodes: Nodes
    maintenance: Maintenances
    projects: Projects
    jobs: Jobs
    profiles: Profiles
    peaks: Peaks
    paying: CodecsPaying
    races: Races
    lists: Lists
    labels: Labels
    job_figures: JobFigures
    telemetry: Telemetry
    links: LinkReader
    staleness: StalenessReader
    checkpoints: CheckpointReader
    held: HeldReader
    exports: Exports
    figures: Figures
    speed_ups: SpeedUps
    hub: Hub
    views: Views
    measures: Measures
    ingest_threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(INGEST_THREADS))
    """Threads of telemetry's own: requests that wait for figures cannot take them all."""
    bodies: Room = field(default_factory=lambda: Room(BODIES_BYTES))
    """Memory for telemetry as it comes."""
    unpacked: Room = field(default_factory=lambda: Room(UNPACKED_BYTES))
    """Memory for telemetry that is being stored. Who holds of it waits for nothing of the other."""
    started: float = field(default_factory=time.monotonic)
    """When the server started, on the monotonic clock."""
