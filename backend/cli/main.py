"""`trainyard`: the server, and everything that can be asked of it from a terminal."""

from __future__ import annotations

import json

import typer

from backend.cli import compare, demo, jobs, plans, profiles, races, serve, tokens, top, trace

app = typer.Typer(
    name="trainyard", no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None
)


@app.callback()
def trainyard() -> None:
    """A control plane for distributed training."""


@app.command("openapi")
def openapi() -> None:
    """Print the API's OpenAPI document; the page's client is generated from it."""
    from backend.app import openapi as document  # noqa: PLC0415 - the server's packages, only here

    typer.echo(json.dumps(document(), indent=2))


app.command("serve")(serve.serve)
app.command("demo")(demo.demo)
app.command("token")(tokens.token)
app.command("submit")(jobs.submit)
app.command("list")(jobs.list_jobs)
app.command("show")(jobs.show)
app.command("logs")(jobs.logs)
app.command("clone")(jobs.clone)
app.command("baseline")(jobs.baseline)
app.command("cancel")(jobs.cancel)
app.command("delete")(jobs.delete)
app.command("record")(jobs.record)
app.command("top")(top.top)
app.command("trace")(trace.trace)
app.command("compare")(compare.compare)
app.command("race")(races.race)
app.command("races")(races.races)
app.command("plan")(plans.plan)
app.command("strategies")(plans.strategies)
app.command("profile")(profiles.profile)
app.command("schema")(plans.schema)

if __name__ == "__main__":
    app()
