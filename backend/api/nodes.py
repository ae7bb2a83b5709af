"""The nodes of the cluster."""

from __future__ import annotations

from fastapi import APIRouter

from backend.api.deps import Services
from backend.schemas.nodes import NodeView

router = APIRouter(prefix="/nodes", tags=["nodes"])


@router.get("")
def list_nodes(services: Services) -> list[NodeView]:
    """The machines on which servers of this database place jobs: whether each is there, its address and interfaces,
    its devices, who is on them, and what is free. `GET /queue` says what waits for what; a node is drained by
    `POST /maintenance`."""
    return services.nodes.all()
