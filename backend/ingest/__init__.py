"""Taking in telemetry: batches and seals, exactly once, acknowledged after the commit."""

from backend.ingest.accept import MAX_BODY_BYTES, Accepted, accept
from backend.ingest.errors import IngestError
from backend.ingest.seal import Sealed, seal
from backend.ingest.tokens import authorize, new_token, token_sha256

__all__ = [
    "MAX_BODY_BYTES",
    "Accepted",
    "IngestError",
    "Sealed",
    "accept",
    "authorize",
    "new_token",
    "seal",
    "token_sha256",
]
