"""The API's OpenAPI document: made once for all tests that read it, since it takes a second."""

from __future__ import annotations

from backend.app import openapi

DOCUMENT = openapi()
