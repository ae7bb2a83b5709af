"""The transport's tests with the data plane in C under a sanitizer of the C compiler.

    python -m tests.sanitize address      # memory errors and undefined behaviour
    python -m tests.sanitize thread       # data races

What follows are options of pytest. Python itself has not been compiled for a sanitizer, so that the sanitizer's library
is loaded first; what Python never frees is not told.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from engine.transport.in_c.build import FLAGS

SANITIZERS = {
    "address": ("libasan.so", "-g -fsanitize=address,undefined -fno-sanitize-recover=undefined"),
    "thread": ("libtsan.so", "-g -fsanitize=thread"),
}
TESTS = sorted(str(path) for path in Path(__file__).parent.glob("engine/test_transport_*.py"))


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] not in SANITIZERS:
        print(__doc__)
        return 2
    library, flags = SANITIZERS[sys.argv[1]]
    found = subprocess.run(["gcc", f"-print-file-name={library}"], capture_output=True, text=True, check=True)
    options = "halt_on_error=1:exitcode=66:detect_leaks=0"
    environment = {
        **os.environ,
        FLAGS: flags,
        "LD_PRELOAD": found.stdout.strip(),
        "ASAN_OPTIONS": options,
        "TSAN_OPTIONS": "report_signal_unsafe=0:ignore_noninstrumented_modules=1:exitcode=66",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-k", "in_c", *TESTS, *sys.argv[2:]]
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
