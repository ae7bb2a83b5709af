"""Devices that a rehearsal can take the place of: peak rates as their vendor publishes them. No torch here."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import UnknownNameError


@dataclass(frozen=True, kw_only=True)
class DeviceEntry:
    """One device."""

    name: str
    """What a job writes."""
    title: str
    """What people call it."""
    flops: float
    """Peak float32 operations per second, outside of tensor cores; multiplication and addition are two."""
    bandwidth: float
    """Peak bytes per second between the device and its memory."""
    source: str
    """Where the vendor says so."""


DEVICES: tuple[DeviceEntry, ...] = (
    DeviceEntry(
        name="k40m",
        title="K40m",
        flops=4.29e12,
        bandwidth=288e9,
        source="NVIDIA, Tesla K40 board specification: 4.29 TFLOPS at the base clock, 288 GB/s",
    ),
    DeviceEntry(
        name="m40",
        title="M40",
        flops=7.0e12,
        bandwidth=288e9,
        source="NVIDIA, Tesla M40 data sheet: 7 TFLOPS with GPU Boost, 288 GB/s",
    ),
    DeviceEntry(
        name="p4000",
        title="P4000",
        flops=5.3e12,
        bandwidth=243e9,
        source="NVIDIA, Quadro P4000 data sheet: 5.3 TFLOPS, 243 GB/s",
    ),
    DeviceEntry(
        name="p100",
        title="P100",
        flops=9.3e12,
        bandwidth=732e9,
        source="NVIDIA, Tesla P100 data sheet, PCIe with 16 GB: 9.3 TFLOPS, 732 GB/s",
    ),
    DeviceEntry(
        name="v100",
        title="V100",
        flops=15.7e12,
        bandwidth=900e9,
        source="NVIDIA, V100 data sheet, SXM2: 15.7 TFLOPS, 900 GB/s",
    ),
    DeviceEntry(
        name="a100",
        title="A100",
        flops=19.5e12,
        bandwidth=1555e9,
        source="NVIDIA, A100 data sheet, 40 GB: 19.5 TFLOPS, 1555 GB/s",
    ),
    DeviceEntry(
        name="h100",
        title="H100",
        flops=67e12,
        bandwidth=3350e9,
        source="NVIDIA, H100 data sheet, SXM: 67 TFLOPS, 3.35 TB/s",
    ),
)


def device(name: str, field: str = "device") -> DeviceEntry:
    """The device called `name`; raises UnknownNameError listing the known ones."""
    for entry in DEVICES:
        if entry.name == name:
            return entry
    raise UnknownNameError(field, name, "device", [entry.name for entry in DEVICES])
