"""`trainyard profile`: what each layer of a model costs on a device. Needs no server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from backend.cli.errors import FAILURE, reported
from backend.cli.progress import working
from backend.cli.text import columns
from engine.errors import UserError
from engine.launch import write_json
from engine.plan.description import ModelDescription
from engine.plan.documents import load_text
from engine.plan.rehearsal import RehearsalSpec
from engine.plan.serde import from_plain, to_plain
from engine.profile import DEVICES, Profile

OF_THE_TABLE = ", ".join(entry.name for entry in DEVICES)
Options = Annotated[list[str] | None, typer.Option(help="name=value; may be given several times.")]


def profile(
    *,
    model: Annotated[str, typer.Option(help="A model of the catalogue.")],
    data: Annotated[str, typer.Option(help="A data set of the catalogue.")],
    option: Options = None,
    data_option: Options = None,
    batch: Annotated[int, typer.Option(min=1, help="Samples of one pass.")] = 32,
    device: Annotated[
        str, typer.Option(help=f"cpu or cuda: measured here. Derived from FLOPs: {OF_THE_TABLE}.")
    ] = "cpu",
    efficiency: Annotated[
        float, typer.Option(help="Share of its peak that a derived device reaches.")
    ] = RehearsalSpec().efficiency,
    steps: Annotated[int, typer.Option(min=1, help="Steps measured, after the warm-up.")] = 20,
    threads: Annotated[int, typer.Option(min=1, help="Compute threads (cpu).")] = 1,
    out: Annotated[Path | None, typer.Option(help="Write the profile here, as JSON.")] = None,
) -> None:
    """Measure or derive a model's profile: forward and backward time of every layer, for rehearsals."""
    with reported():
        if device not in ("cpu", "cuda"):
            RehearsalSpec(device=device, efficiency=efficiency)  # raises what is wrong with them
        request = {
            "model": {"name": model, "options": _options(option)},
            "data": {"name": data, "options": _options(data_option)},
            "precision": "float32",
            "batch": batch,
            "steps": steps,
            "threads": threads,
            "device": device,
            "efficiency": efficiency,
        }
        with working(f"profiling {model} on {device}"):
            found, described = _ask(request)
        if out is not None:
            _write(found, out)
    typer.echo(table(found, described))
    if out is not None:
        typer.echo(
            f"\nWritten to {out}. A job replays it: fidelity: rehearse, rehearsal: {{profile: {out.resolve()}}}"
        )


def table(found: Profile, described: ModelDescription) -> str:
    """The profile as text: per layer, times of a pass of its batch."""
    whole, per_pass = found.forward_s + found.backward_s, 1e3 * found.batch
    how = f"{found.source} on {found.device}"
    if found.efficiency is not None:
        how = f"derived from FLOPs for {found.device} at {100 * found.efficiency:g} % of its peak"
    rows = [("(before the first layer)", found.before_s, 0.0, 0)] if found.before_s else []
    for time in found.layers:
        layer = described.layer(time.layer)
        rows.append((layer.title, time.forward_s, time.backward_s, layer.parameter_count))
    rows += [("(after the last gradient)", 0.0, found.after_s, 0)] if found.after_s else []
    rows.append(("all", found.forward_s, found.backward_s, described.parameter_count))
    text = columns(
        ("layer", "forward ms", "backward ms", "share", "parameters"),
        [
            (
                name,
                f"{forward * per_pass:.3f}",
                f"{backward * per_pass:.3f}",
                f"{100 * (forward + backward) / whole if whole else 0:.1f} %",
                f"{count:,}",
            )
            for name, forward, backward, count in rows
        ],
    )
    return f"{found.model}: times of a pass of {found.batch} samples, {how}\n({found.hardware})\n\n{text}"


def _ask(request: dict[str, Any]) -> tuple[Profile, ModelDescription]:
    """Raises UserError for what the request got wrong; exits where the process fails otherwise."""
    command = [sys.executable, "-m", "engine.gang.measure"]
    ran = subprocess.run(command, input=json.dumps(request), stdout=subprocess.PIPE, text=True, check=False)
    try:
        answer = json.loads(ran.stdout)
    except json.JSONDecodeError:  # it has said why on standard error
        raise typer.Exit(FAILURE) from None
    if error := answer.get("error"):
        raise UserError(error["field"], error["value"], error["rule"], error["remedy"])
    return from_plain(Profile, answer["profile"]), ModelDescription.from_dict(answer["model"])


def _options(given: list[str] | None) -> dict[str, Any]:
    found = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise UserError("--option", text, "must read name=value", "Example: --option classes=100")
        found[name] = load_text(value, text)
    return found


def _write(found: Profile, out: Path) -> None:
    try:
        write_json(out, to_plain(found), mode=0o666)
    except OSError as error:
        raise UserError(
            "--out", str(out), f"cannot be written: {error}", "Name a file in a folder of yours"
        ) from None
