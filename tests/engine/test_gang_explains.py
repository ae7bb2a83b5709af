"""What a process writes down when it fails."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from engine.gang.process import _explain as explain
from engine.inputs.entrypoint import load_module
from engine.launch import Launch
from engine.transport.errors import PeerLost


def test_who_loses_a_peer_is_not_sent_to_the_line_where_a_users_code_waited(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text("def forward(wait):\n    return wait()\n")
    source, written = SimpleNamespace(directory=str(tmp_path)), tmp_path / "error.json"
    launch: Any = SimpleNamespace(
        job=SimpleNamespace(model=source, data=source),
        parties=[SimpleNamespace(name="worker 1")],
        error=lambda _: written,
    )

    def said(error: Exception) -> str:
        def fail() -> None:
            raise error

        try:
            load_module("waits:build", str(tmp_path)).forward(fail)
        except Exception as caught:
            explain(cast(Launch, launch), 0, caught)
        return str(json.loads(written.read_text())["message"])

    assert (
        said(PeerLost(0, "worker 0", "no sign of life for 15 s")) == "lost worker 0: no sign of life for 15 s"
    )
    assert "(waits.py, line 2, in forward: `return wait()`)" in said(ValueError("odd"))
