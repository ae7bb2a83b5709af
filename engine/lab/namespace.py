"""Network namespaces by name: run iproute2 on them, enter them, set their kernel parameters."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

DIRECTORY = Path("/run/netns")
"""Where iproute2 keeps the names."""
_CLONE_NEWNET = 0x40000000


class LabError(RuntimeError):
    """A lab cannot be built or entered; the text says why."""


def batch(tool: str, lines: Iterable[str], namespace: str | None = None, *, force: bool = False) -> None:
    """Run lines of `ip` or `tc` in one process. Raises LabError with the line and the tool's own words.

    `force` goes on after a line that fails, and raises at the end."""
    text = list(lines)
    if not text:
        return
    found = shutil.which(tool)
    if found is None:
        raise LabError(f"{tool} is not installed; install iproute2")
    command = [
        found,
        *(["-n", namespace] if namespace else []),
        *(["-force"] if force else []),
        "-batch",
        "-",
    ]
    done = subprocess.run(command, input="\n".join(text) + "\n", capture_output=True, text=True, check=False)
    if done.returncode:
        words = "; ".join(line for line in done.stderr.splitlines() if not line.startswith("Command failed"))
        failed = done.stderr.rpartition("Command failed -:")[2].strip()
        line = f" at `{text[int(failed) - 1]}`" if failed.isdigit() and 0 < int(failed) <= len(text) else ""
        raise LabError(f"{tool}{line}: {words or f'exit code {done.returncode}'}")


def enter(namespace: str) -> None:
    """The calling thread joins the namespace; threads and processes that it starts later are born there.

    Raises LabError: a namespace that is not there, or no permission (CAP_SYS_ADMIN)."""
    try:
        descriptor = os.open(DIRECTORY / namespace, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise LabError(f"network namespace {namespace} cannot be opened: {error}") from error
    try:
        libc = ctypes.CDLL(None, use_errno=True)  # os.setns came with Python 3.12
        if libc.setns(descriptor, _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise LabError(f"network namespace {namespace} cannot be entered: {os.strerror(number)}")
    finally:
        os.close(descriptor)


def set_parameters(namespace: str, parameters: Mapping[str, str]) -> None:
    """Set kernel parameters (`net.ipv4.x` as `ipv4/x`) inside a namespace. Raises LabError.

    A thread of its own does it: namespaces belong to threads, and the caller's must stay as it is."""
    problems: list[Exception] = []

    def work() -> None:
        try:
            enter(namespace)
            for name, value in parameters.items():
                (Path("/proc/sys/net") / name).write_text(value, encoding="ascii")
        except (LabError, OSError) as error:
            problems.append(error)

    thread = threading.Thread(target=work, name=f"parameters of {namespace}")
    thread.start()
    thread.join()
    if problems:
        raise LabError(f"kernel parameters of {namespace} cannot be set: {problems[0]}") from problems[0]


def names() -> list[str]:
    """Every named network namespace of this machine."""
    try:
        return sorted(entry.name for entry in DIRECTORY.iterdir())
    except OSError:
        return []


def identity(namespace: str) -> int | None:
    """The inode that processes inside show at /proc/<pid>/ns/net; None where it is gone."""
    try:
        return (DIRECTORY / namespace).stat().st_ino
    except OSError:
        return None


def inhabited(namespaces: Iterable[str]) -> bool:
    """Whether a process lives in one of them."""
    wanted = {identity(namespace) for namespace in namespaces} - {None}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "ns" / "net").stat().st_ino in wanted:
                    return True
            except OSError:
                continue  # gone, a zombie, or another user's
    return False
