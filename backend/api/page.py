"""The page: what `frontend/` builds, or a page that says how to build it."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path

from fastapi import FastAPI, HTTPException
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import Headers
from starlette.responses import FileResponse, Response
from starlette.types import Scope

NOT_BUILT = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Trainyard</title>
<body style="font:16px/1.6 system-ui;max-width:42rem;margin:4rem auto;padding:0 1rem">
<h1>The page is not built yet</h1>
<p>The service is running; its page is missing from <code>{folder}</code>. Build it with</p>
<pre>cd frontend &amp;&amp; npm ci &amp;&amp; npm run build</pre>
<p>or start with <code>make serve</code>, which does. The API is described at <a
href="/api/v1/openapi.json">/api/v1/openapi.json</a>.</p>
"""


class Assets(StaticFiles):
    """Files whose names tell their content: a browser keeps them, and gets them as the build has compressed them."""

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        packed = Path(f"{full_path}.gz")
        if Path(full_path).suffix == ".gz":  # it is sent in another file's place only
            raise HTTPException(404)
        if "gzip" in Headers(scope=scope).get("accept-encoding", "") and packed.is_file():
            response = super().file_response(packed, packed.stat(), scope, status_code)
            response.headers["Content-Encoding"] = "gzip"
            response.headers["Vary"] = "Accept-Encoding"
            response.headers["Content-Type"] = str(FileResponse(full_path).headers["content-type"])
        else:
            response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response


def install(app: FastAPI, folder: Path) -> None:
    """Serve the built page, every address of its own included, below all routes of the API."""
    if (folder / "index.html").is_file():
        if (folder / "assets").is_dir():
            app.mount("/assets", Assets(directory=folder / "assets"))
        app.frontend("/", directory=folder, fallback="index.html")
        return

    @app.get("/{path:path}", include_in_schema=False, status_code=503)
    def not_built(path: str) -> HTMLResponse:
        return HTMLResponse(NOT_BUILT.format(folder=escape(str(folder))), status_code=503)
