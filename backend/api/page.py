"""The page: what `frontend/` builds, or a page that says how to build it."""

from __future__ import annotations

from html import escape
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import HTMLResponse

NOT_BUILT = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Trainyard</title>
<body style="font:16px/1.6 system-ui;max-width:42rem;margin:4rem auto;padding:0 1rem">
<h1>The page is not built yet</h1>
<p>The service is running; its page is missing from <code>{folder}</code>. Build it with</p>
<pre>cd frontend &amp;&amp; npm ci &amp;&amp; npm run build</pre>
<p>or start with <code>make serve</code>, which does. The API is described at <a
href="/api/v1/openapi.json">/api/v1/openapi.json</a>.</p>
"""


def install(app: FastAPI, folder: Path) -> None:
    """Serve the built page, every address of its own included, below all routes of the API."""
    if (folder / "index.html").is_file():
        app.frontend("/", directory=folder, fallback="index.html")
        return

    @app.get("/{path:path}", include_in_schema=False, status_code=503)
    def not_built(path: str) -> HTMLResponse:
        return HTMLResponse(NOT_BUILT.format(folder=escape(str(folder))), status_code=503)
