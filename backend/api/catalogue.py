"""What can be chosen: strategies, models, data sets, axes, devices, figures; and the job's schema."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from backend.api.deps import Services
from backend.schemas.catalogue import AxisEntry, Device, FigureEntry, SourceEntry, StrategyEntry
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
    """Every device and the job that occupies it."""
    return services.inventory.devices()


@router.get("/figures")
def list_figures(services: Services) -> list[FigureEntry]:
    """Every figure."""
    return services.figures.catalogue()


@router.get("/schema/job")
def show_job_schema() -> dict[str, Any]:
    """JSON schema of a job's specification, with a description for every field."""
    return catalogue.job_schema()
