"""The catalogues, from the engine's registration lists: nothing is listed twice."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import is_dataclass
from functools import cache
from threading import RLock
from typing import Any

from pydantic import TypeAdapter

from backend.races.spec import RECOMMENDED
from backend.schemas.catalogue import AxisEntry, AxisValue, Lab, SourceEntry, StrategyEntry, Word
from engine.inputs.registry import DATASETS
from engine.lab import permitted
from engine.models.registry import MODELS
from engine.plan.job import JobSpec
from engine.plan.plan import AXES
from engine.plan.words import WORDS
from engine.profile import DEVICES
from engine.strategies import STRATEGIES
from engine.telemetry.definitions import DEFINITIONS

_READING = RLock()
"""Held while a class's source is parsed: in Python 3.11, one of two threads that parse at the same time may get a
SystemError ("AST constructor recursion depth mismatch")."""


@cache
def schema_of(kind: type) -> dict[str, Any]:
    """JSON schema of a dataclass, with the strings under its fields as descriptions, inherited ones included."""
    with _READING:
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
    """JSON schema of a job's specification; the launch form is made from it. The device that is rehearsed is a choice
    there."""
    schema = deepcopy(schema_of(JobSpec))
    device = schema["$defs"]["RehearsalSpec"]["properties"]["device"]
    device["enum"] = [entry.name for entry in DEVICES]
    return schema


@cache
def strategies() -> list[StrategyEntry]:
    return [
        StrategyEntry(
            name=entry.name,
            summary=entry.summary,
            loses_when=entry.loses_when,
            source=entry.source,
            proof=entry.proof,
            recommended=entry.name in RECOMMENDED,
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
                AxisValue(
                    name=m.name,
                    summary=m.summary,
                    available=m.available,
                    missing=m.missing,
                    options_schema=schema_of(m.options),
                )
                for m in axis
            ],
        )
        for axis in AXES
    ]


@cache
def words() -> list[Word]:
    """Metrics first, then the words of plans."""
    return [
        Word(name=name, text=text, metric=metric)
        for source, metric in ((DEFINITIONS, True), (WORDS, False))
        for name, text in source.items()
    ]


def lab() -> Lab:
    """Tried anew each time: it takes 0.1 s, and what a machine permits may change."""
    why_not = permitted()
    return Lab(permitted=why_not is None, why_not=why_not)
