"""The catalogues, from the engine's registration lists: nothing is listed twice."""

from __future__ import annotations

from dataclasses import is_dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from backend.schemas.catalogue import AxisEntry, AxisValue, SourceEntry, StrategyEntry
from engine.inputs.registry import DATASETS
from engine.models.registry import MODELS
from engine.plan.job import JobSpec
from engine.plan.plan import AXES
from engine.strategies import STRATEGIES


@cache
def schema_of(kind: type) -> dict[str, Any]:
    """JSON schema of a dataclass, with the strings under its fields as descriptions, inherited ones included."""
    schema = TypeAdapter(kind).json_schema()
    for base in kind.__mro__[1:]:
        if is_dataclass(base):  # pydantic reads the strings of the class's own source only
            inherited = schema_of(base).get("properties", {})
            for name, field in schema.get("properties", {}).items():
                if "description" not in field and "description" in inherited.get(name, {}):
                    field["description"] = inherited[name]["description"]
    return schema


@cache
def job_schema() -> dict[str, Any]:
    """JSON schema of a job's specification; the launch form is made from it."""
    return schema_of(JobSpec)


@cache
def strategies() -> list[StrategyEntry]:
    return [
        StrategyEntry(
            name=entry.name,
            summary=entry.summary,
            loses_when=entry.loses_when,
            source=entry.source,
            proof=entry.proof,
            options_schema=schema_of(entry.options),
        )
        for entry in STRATEGIES
    ]


@cache
def models() -> list[SourceEntry]:
    return [
        SourceEntry(
            name=entry.name,
            summary=entry.summary,
            source=entry.source,
            purpose=entry.purpose,
            options_schema=schema_of(entry.options),
            sample_shape=list(entry.input_shape),
            classes=entry.classes,
        )
        for entry in MODELS
    ]


@cache
def datasets() -> list[SourceEntry]:
    return [
        SourceEntry(
            name=entry.name,
            summary=entry.summary,
            source=None,
            purpose="training",
            options_schema=schema_of(entry.options),
            sample_shape=list(entry.input_shape),
            classes=entry.classes,
        )
        for entry in DATASETS
    ]


@cache
def axes() -> list[AxisEntry]:
    return [
        AxisEntry(
            name=axis.name,
            question=axis.question,
            values=[
                AxisValue(name=m.name, summary=m.summary, available=m.available, missing=m.missing)
                for m in axis
            ],
        )
        for axis in AXES
    ]
