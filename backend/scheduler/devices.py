"""The machine's devices: slots by setting, CUDA devices by asking PyTorch in a short process."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
from pathlib import Path

from backend.scheduler.decide import Device, Inventory

PROBE_TIMEOUT_S = 120.0
"""The first import of a CUDA build from a cold disk takes long."""
PROBE = """
import json, torch
found = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
print(json.dumps([{"name": p.name, "memory_bytes": p.total_memory} for p in found]))
"""
logger = logging.getLogger(__name__)


def take_inventory(cpu_devices: int, rehearsals: int = 1) -> Inventory:
    """Every device of this machine. Takes seconds where there is an NVIDIA driver, else no time."""
    model = cpu_model()
    cpus = tuple(
        Device(id=f"cpu:{i}", kind="cpu", name=f"CPU slot {i}", model=model) for i in range(cpu_devices)
    )
    slots = tuple(
        Device(id=f"rehearsal:{i}", kind="rehearsal", name=f"slot {i} for rehearsals", model=model)
        for i in range(rehearsals)
    )
    return Inventory(devices=(*cpus, *cuda_devices(), *slots))


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """What the kernel calls the processor; empty where it has no name for it, as on many ARM machines."""
    try:
        lines = cpuinfo.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    named = (line.partition(":")[2] for line in lines if line.startswith("model name"))
    return " ".join(next(named, "").split())


def cuda_devices() -> tuple[Device, ...]:
    """The CUDA devices that the workers would see.

    PyTorch is the one to ask, not the driver: it knows its own build and CUDA_VISIBLE_DEVICES. It is asked in
    a process of its own, because the server never loads it, and only where there is a driver.
    """
    if not (Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi")):
        return ()
    try:
        ran = subprocess.run(
            [sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=True
        )
    except subprocess.TimeoutExpired:
        logger.warning("no CUDA device is used: PyTorch did not list them within %g s", PROBE_TIMEOUT_S)
        return ()
    except subprocess.CalledProcessError as error:
        last = error.stderr.strip().splitlines()[-1:] or ["no message"]
        logger.warning("no CUDA device is used: PyTorch cannot list them: %s", last[0])
        return ()
    return tuple(
        Device(
            id=f"cuda:{i}",
            kind="cuda",
            name=found["name"],
            model=found["name"],
            memory_bytes=found["memory_bytes"],
        )
        for i, found in enumerate(json.loads(ran.stdout))
    )
