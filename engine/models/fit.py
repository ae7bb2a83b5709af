"""Generated data that fit a model without being told: options left out take the model's own shapes. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from engine.models import registry
from engine.models.registry import ModelEntry
from engine.plan.job import SourceSpec


def fitted(data: SourceSpec, model: SourceSpec) -> SourceSpec:
    """`data` as they are loaded for `model`: synthetic data for a model of the catalogue get its shape and classes (or
    words) where the job does not say them. Other data, and data for a user's own model, stay as they are.

    Raises UnknownNameError for a model that the catalogue does not list.
    """
    own = _OWN.get(data.name or "")
    if own is None or model.name is None:
        return data
    return replace(data, options={**own(registry.model(model.name), model.options), **data.options})


def _of_samples(model: ModelEntry, options: Mapping[str, Any]) -> dict[str, Any]:
    if model.target_shape:
        return {}  # a model of words: other data are for it
    return {"shape": list(model.input_shape), "classes": options.get("classes", model.classes)}


def _of_sentences(model: ModelEntry, options: Mapping[str, Any]) -> dict[str, Any]:
    if not model.target_shape or model.input_shape == model.target_shape:
        return {}  # no model of two sentences
    sizes = {name: options[name] for name in ("source_vocabulary", "target_vocabulary") if name in options}
    return {"target_vocabulary": model.classes, "length": model.target_shape[0], **sizes}


_OWN = {"synthetic": _of_samples, "synthetic-tokens": _of_sentences}
