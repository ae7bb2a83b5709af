"""The tables, one file per group."""

from backend.db.models.audit import AuditEntry
from backend.db.models.base import Base
from backend.db.models.jobs import Attempt, Job, Transition
from backend.db.models.labels import JobFigures, JobTag
from backend.db.models.maintenance import Maintenance
from backend.db.models.nodes import NodeRow
from backend.db.models.notices import Notice
from backend.db.models.people import Token, User
from backend.db.models.projects import Project
from backend.db.models.races import Race, RaceOut, RaceRun
from backend.db.models.rollups import DetailedStep, LayerWait, StalenessCount, StalenessWindow, TransferTotal
from backend.db.models.secrets import Secret
from backend.db.models.servers import Role, ServerRow
from backend.db.models.sign_ins import SignIn
from backend.db.models.speed_ups import SpeedUpRow
from backend.db.models.telemetry import Batch, DroppedDetail, LayerTotal, Link, LinkBin, Metric, StepRow
from backend.db.models.webhooks import Delivery, Webhook

__all__ = [
    "Attempt",
    "AuditEntry",
    "Base",
    "Batch",
    "Delivery",
    "DetailedStep",
    "DroppedDetail",
    "Job",
    "JobFigures",
    "JobTag",
    "LayerTotal",
    "LayerWait",
    "Link",
    "LinkBin",
    "Maintenance",
    "Metric",
    "NodeRow",
    "Notice",
    "Project",
    "Race",
    "RaceOut",
    "RaceRun",
    "Role",
    "Secret",
    "ServerRow",
    "SignIn",
    "SpeedUpRow",
    "StalenessCount",
    "StalenessWindow",
    "StepRow",
    "Token",
    "TransferTotal",
    "Transition",
    "User",
    "Webhook",
]
