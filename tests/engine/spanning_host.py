"""One host of a gang that spans several: `python -m tests.engine.spanning_host FOLDER ADDRESS`.

Reads the launch and the attempt's token from standard input, runs the parties at ADDRESS, and says on standard output
how they ended and what they have left.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

from engine.gang.gang import Gang
from engine.launch import Launch


def main() -> None:
    told = json.load(sys.stdin)
    launch = Launch.from_dict(told["launch"], Path(sys.argv[1]) / "attempt")
    launch.write(bytes.fromhex(told["token"]))
    gang = Gang(launch, sys.argv[2])
    gang.start()
    try:
        end = gang.wait(120)
    finally:
        gang.stop()
    model = launch.result / "model.pt"
    said = {
        "status": None if end is None else end.status,
        "reason": None if end is None else end.reason,
        "files": sorted(path.name for path in launch.result.iterdir()),
        "model": base64.b64encode(model.read_bytes()).decode() if model.exists() else None,
        "logs": [path.read_text() for path in sorted((launch.directory / "logs").glob("*.log"))],
    }
    print(json.dumps(said))


if __name__ == "__main__":
    main()
