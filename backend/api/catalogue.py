"""What can be chosen: strategies, models, data sets, axes, devices and their queue, figures; the job's schema; what
words mean."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from backend.api.deps import Services, problems
from backend.schemas.catalogue import (
    AxisEntry,
    Device,
    FigureEntry,
    Lab,
    Queue,
    SourceEntry,
    StrategyEntry,
    Word,
)
from backend.services import catalogue

router = APIRouter(tags=["catalogue"])


@router.get("/strategies")
def list_strategies() -> list[StrategyEntry]:
    """Every strategy, with what it is good for and when it loses."""
    return catalogue.strategies()


@router.get("/models")
def list_models() -> list[SourceEntry]:
    """Every model of ours."""
    return catalogue.models()


@router.get("/datasets")
def list_datasets() -> list[SourceEntry]:
    """Every data set of ours."""
    return catalogue.datasets()


@router.get("/axes")
def list_axes() -> list[AxisEntry]:
    """The vocabulary of plans: every axis and its values, also those whose mechanism is not built yet."""
    return catalogue.axes()


@router.get("/devices")
def list_devices(services: Services) -> list[Device]:
    """Every device, and which job holds it since when."""
    return services.inventory.devices()


@router.get("/queue", responses=problems(422))
def show_queue(
    services: Services, limit: Annotated[int, Query(ge=1, le=1_000, description="At most so many jobs")] = 200
) -> Queue:
    """The jobs that wait, in the order in which they may start: for which devices, behind whom, and why."""
    return services.inventory.queue(limit)


@router.get("/lab")
def show_lab() -> Lab:
    """Whether `network.hosts` can be had here: several hosts on this machine, whose links the kernel limits."""
    return catalogue.lab()


@router.get("/words")
def list_words() -> list[Word]:
    """What metrics and the other words of the subject mean: the page explains them to who points at one."""
    return catalogue.words()


@router.get("/figures")
def list_figures(services: Services) -> list[FigureEntry]:
    """Every figure."""
    return services.figures.catalogue()


@router.get("/schema/job")
def show_job_schema() -> dict[str, Any]:
    """JSON schema of a job's specification, with a description for every field."""
    return catalogue.job_schema()
