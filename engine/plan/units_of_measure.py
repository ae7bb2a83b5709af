"""Rates and sizes as people write them, and how far steps can be counted."""

from __future__ import annotations

import re

from engine.errors import UserError

_DURATION = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(us|ms|s)\s*$")
_NANOSECONDS = {"us": 10**3, "ms": 10**6, "s": 10**9}
_RATE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([kKMGT]?)(?:bit(?:/s)?|bps)\s*$")
LARGEST = 2**31 - 1
"""Of steps, epochs and batches: telemetry counts them in 32 bits."""
LEAST_RATE_BPS = 10**3
"""The least that a link, shaped or paced, can keep."""
_FACTOR = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def parse_rate(text: str, field: str) -> int:
    """Bits per second of `300Mbit`, `10 Gbit/s`, `1.5Gbps` (decimal prefixes, as network equipment counts)."""
    match = _RATE.match(text)
    value = float(match[1]) * _FACTOR[match[2]] if match else 0
    if not LEAST_RATE_BPS <= value <= 10**14:
        raise UserError(
            field, text, "is not a rate from 1 kbit/s to 100 Tbit/s", "Write it as 300Mbit or 10Gbit"
        )
    return round(value)


def parse_duration(text: str, field: str) -> int:
    """Nanoseconds of `0.1ms`, `50us` or `1 s`."""
    match = _DURATION.match(text)
    value = float(match[1]) * _NANOSECONDS[match[2]] if match else 0
    if not 10**3 <= value <= 10**10:
        raise UserError(field, text, "is not a time from 1 us to 10 s", "Write it as 0.1ms or 50us")
    return round(value)


def format_rate(bps: float) -> str:
    """`300 Mbit/s` of 300000000."""
    for factor, prefix in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if bps >= 0.9995 * factor:  # what rounds to 1000 of one prefix is 1 of the next
            return f"{bps / factor:.3g} {prefix}bit/s"
    return f"{bps:.3g} bit/s"


def format_bytes(count: float) -> str:
    """`232.6 MiB` of 243860896."""
    for factor, prefix in ((2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki")):
        if count >= factor:
            return f"{count / factor:.1f} {prefix}B"
    return f"{count:.0f} B"
