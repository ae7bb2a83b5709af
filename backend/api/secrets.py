"""Secrets of jobs."""

from __future__ import annotations

from fastapi import APIRouter

from backend.api.deps import Asks, Services, problems
from backend.schemas.secrets import SecretValue, SecretView

router = APIRouter(prefix="/secrets", tags=["secrets"])


@router.get("")
def list_secrets(services: Services, caller: Asks) -> list[SecretView]:
    """The names of one's own secrets. What they are, nothing answers."""
    return services.secrets.all(caller)


@router.put("/{name}", responses=problems(409, 415, 422))
def keep_secret(services: Services, caller: Asks, name: str, asked: SecretValue) -> SecretView:
    """Keep a secret, in place of what has that name. Jobs of one's own that name it find it in the environment variable
    of that name."""
    return services.secrets.keep(caller, name, asked.value.get_secret_value())


@router.delete("/{name}", status_code=204, responses=problems(404, 415))
def remove_secret(services: Services, caller: Asks, name: str) -> None:
    """Forget a secret. Jobs that run keep what they have; those that start later fail where they name it."""
    services.secrets.remove(caller, name)
