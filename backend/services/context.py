"""Everything that requests need, made once when the server starts."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from backend.db import Database
from backend.services.figures import Figures
from backend.services.inventory import Inventory
from backend.services.jobs import Jobs
from backend.services.lists import Lists
from backend.services.notices import Hub
from backend.services.telemetry import Telemetry
from backend.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Context:
    """The services of one running server."""

    settings: Settings
    database: Database
    inventory: Inventory
    jobs: Jobs
    lists: Lists
    telemetry: Telemetry
    figures: Figures
    hub: Hub
    started: float = field(default_factory=time.monotonic)
    """When the server started, on the monotonic clock."""
