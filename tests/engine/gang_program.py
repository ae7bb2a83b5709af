"""A supervisor in a process of its own: `python -m tests.engine.gang_program DIRECTORY [OPEN_FILES]`.

Runs the launch in DIRECTORY. Prints the pids as one line of JSON, and the end as another. OPEN_FILES: how many more
files this process may open, so that not every process of the gang can be started.
"""

from __future__ import annotations

import json
import resource
import sys
from dataclasses import asdict
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from engine.gang.gang import Gang
from engine.launch import Launch


def main(directory: str, open_files: str = "") -> None:
    gang = Gang(Launch.read(Path(directory)))
    if open_files:
        forkserver.ensure_running()
        limit = len(list(Path("/proc/self/fd").iterdir())) - 1 + int(open_files)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    try:
        gang.start()
    except OSError as error:
        say({"error": str(error), "pids": gang.pids})
        return
    say(gang.pids)
    end = gang.wait(None)
    assert end is not None
    say(asdict(end))


def say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
