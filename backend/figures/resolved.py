"""What of a stored specification decides whether two jobs compare, in one way of writing.

Options that have their default value are left out, whether or not somebody wrote them, also those of a user's own
function, whose defaults are kept with the model's description; rates and times are written in
one unit: equal texts are equal things. Another version may have stored the specification, so that what this one cannot
read is taken as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from engine.errors import UserError
from engine.inputs.registry import DATASETS
from engine.models.registry import MODELS
from engine.plan.inputs import Input
from engine.plan.job import TrainingSpec
from engine.plan.serde import from_plain, to_plain
from engine.plan.units_of_measure import format_rate, parse_duration, parse_rate
from engine.plan.updates import OptimizerSpec

_OPTIONS: Mapping[str, Mapping[str, type]] = {
    "model": {entry.name: entry.options for entry in MODELS},
    "data": {entry.name: entry.options for entry in DATASETS},
}
_DEFAULTS = {
    "optimizer": OptimizerSpec.name,
    "micro_batches": TrainingSpec.micro_batches,
    "clip_norm": TrainingSpec.clip_norm,
    "deterministic": TrainingSpec.deterministic,
}


def source(
    part: str,
    spec: Mapping[str, Any],
    defaults: Callable[[], Mapping[str, Any] | None] = lambda: None,
) -> str:
    """`vgg-small`, or `vgg-small (classes=100)`: the `model` or `data` of a specification. `defaults` reads those of a
    user's own function, where some of its options are given; None: nobody knows them."""
    given = _part(spec, part)
    name = given.get("name") or given.get("entrypoint") or "?"
    options = dict(given.get("options") or {})
    if options and not given.get("name"):
        known = defaults()
        changed = options if not isinstance(known, Mapping) else _beside(known, options)
    else:
        changed = _changed(_OPTIONS[part].get(str(name)), options)
    said = ", ".join(f"{key}={value}" for key, value in sorted(changed.items()))
    return f"{name} ({said})" if said else str(name)


def network(spec: Mapping[str, Any]) -> str | None:
    """`300 Mbit/s`, or `300 Mbit/s on 4 hosts, 100 us`; None where there is no limit."""
    given = _part(spec, "network")
    limits = given.get("host_rates") or [given.get("rate")]
    rates = [format_rate(parse_rate(rate, "network.rate")) for rate in limits if rate]
    text = rates[0] if len(set(rates)) == 1 else ", ".join(rates)
    if not given.get("hosts"):
        return text or None
    latency = given.get("latency")
    delay = f", {parse_duration(latency, 'network.latency') / 1_000:g} us" if latency else ""
    return f"{text or 'unlimited'} on {given['hosts']} hosts{delay}"


def settings(spec: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """What else changes the time of a step, by name, with defaults written out. An entry point of the same name in
    another directory may be other code."""
    training = _part(spec, "training")
    found = {
        "optimizer": _part(spec, "optimizer").get("name"),
        **{name: training.get(name) for name in ("micro_batches", "clip_norm", "deterministic")},
    }
    filled = {name: _DEFAULTS[name] if value is None else value for name, value in found.items()}
    filled["clip_norm"] = filled["clip_norm"] is not None  # how far is all the same
    filled["data_prepared"] = _prepared(spec)
    for part in ("model", "data"):
        if _part(spec, part).get("entrypoint"):
            filled[f"{part}_directory"] = _part(spec, part).get("directory")
    return tuple((name.replace("_", " "), _said(value)) for name, value in filled.items())


def _prepared(spec: Mapping[str, Any]) -> str:
    """Where the data are prepared, and how far ahead; a rehearsal reads none."""
    given = {} if spec.get("fidelity") == "rehearse" else _part(spec, "input")
    try:
        return from_plain(Input, dict(given)).text
    except UserError:
        return ", ".join(f"{key}={value}" for key, value in sorted(given.items()))


def _part(spec: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = spec.get(name)
    return found if isinstance(found, Mapping) else {}


def _changed(options: type | None, given: dict[str, Any]) -> dict[str, Any]:
    """Those of the given options that differ from their defaults."""
    if options is None or not given:
        return given
    try:
        chosen, default = to_plain(from_plain(options, given)), to_plain(options())
    except (UserError, TypeError):
        return given
    return {name: value for name, value in chosen.items() if value != default.get(name)}


def _beside(defaults: Mapping[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Those of a user's own options that differ from his function's defaults."""
    return {name: value for name, value in given.items() if name not in defaults or defaults[name] != value}


def _said(value: object) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
