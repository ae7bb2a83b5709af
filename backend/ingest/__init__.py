"""Taking in telemetry: batches and seals, exactly once, acknowledged after the commit."""

from backend.ingest.accept import MAX_BODY_BYTES, Accepted, accept
from backend.ingest.errors import IngestError
from backend.ingest.room import BODIES_BYTES, UNPACKED_BYTES, Room, needed
from backend.ingest.seal import Sealed, seal
from backend.ingest.tokens import authorize, new_token, token_sha256

__all__ = [
    "BODIES_BYTES",
    "MAX_BODY_BYTES",
    "UNPACKED_BYTES",
    "Accepted",
    "IngestError",
    "Room",
    "Sealed",
    "accept",
    "authorize",
    "needed",
    "new_token",
    "seal",
    "token_sha256",
]
