"""What is asked for of exports."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from backend.schemas.base import Schema

MOST = 2**31 - 1


class TablesQuery(Schema):
    """Which tables, and of which steps."""

    model_config = ConfigDict(extra="forbid")

    tables: str | None = Field(default=None, max_length=200)
    """Names with commas: `jobs`, `steps`, `metrics`, `layers`, `events`, `links`. Left out: all."""
    attempt: int | None = Field(default=None, ge=1, le=MOST)
    """Number of an attempt, from 1. Left out: the latest."""
    step_from: int | None = Field(default=None, ge=0, le=MOST)
    """The first step. Left out: from the beginning."""
    step_to: int | None = Field(default=None, ge=0, le=MOST)
    """The last step. Left out: to the end."""


class RaceTablesQuery(Schema):
    """The same of a race, of whose jobs these are the latest attempts."""

    model_config = ConfigDict(extra="forbid")

    tables: str | None = Field(default=None, max_length=200)
    """Names with commas. Left out: all."""
    step_from: int | None = Field(default=None, ge=0, le=MOST)
    """The first step. Left out: from the beginning."""
    step_to: int | None = Field(default=None, ge=0, le=MOST)
    """The last step. Left out: to the end."""
