"""Rates and sizes as people write them, and how far steps can be counted."""

from __future__ import annotations

import re

from engine.errors import UserError

_NUMBER = r" *([0-9]{1,15}(?:\.[0-9]{1,15})?) *"
_DURATION = re.compile(_NUMBER + "(us|ms|s) *")
_NANOSECONDS = {"us": 10**3, "ms": 10**6, "s": 10**9}
_BYTES = re.compile(_NUMBER + "(?:([kKMGT])(i?)B|B)? *")
_RATE = re.compile(_NUMBER + "([kKmMgGtT]?)(?:[bB][iI][tT](?:/s)?|bps) *")
_LONGEST = 60
"""Characters of a rate or a time as it is written."""
LARGEST = 2**31 - 1
"""Of steps, epochs and batches: telemetry counts them in 32 bits."""
LEAST_RATE_BPS = 10**3
"""The least that a link, shaped or paced, can keep."""
_FACTOR = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_MOST_BYTES = 2**50
_PREFIXES = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
_BINARY = ((2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki"))


def parse_rate(text: str, field: str) -> int:
    """Bits per second of `300Mbit`, `10 Gbit/s`, `1.5Gbps` (decimal prefixes, as network equipment counts).
    Nobody means thousandths of a bit by `100 mbit`; `MBps` would be bytes."""
    match = _written(_RATE, text)
    value = float(match[1]) * _FACTOR[match[2].upper()] if match else 0
    if not LEAST_RATE_BPS <= value <= 10**14:
        raise UserError(
            field, text, "is not a rate from 1 kbit/s to 100 Tbit/s", "Write it as 300Mbit or 10Gbit"
        )
    return round(value)


def parse_duration(text: str, field: str) -> int:
    """Nanoseconds of `0.1ms`, `50us` or `1 s`."""
    match = _written(_DURATION, text)
    value = float(match[1]) * _NANOSECONDS[match[2]] if match else 0
    if not 10**3 <= value <= 10**10:
        raise UserError(field, text, "is not a time from 1 us to 10 s", "Write it as 0.1ms or 50us")
    return round(value)


def parse_bytes(given: str | int, field: str) -> int:
    """Bytes of `6GiB`, `600 MB` (decimal), `1.5 KiB`, or of a plain number of them."""
    match = _written(_BYTES, str(given))
    value = 0.0
    if match:
        prefix, binary = match[2] or "", match[3]
        value = float(match[1]) * (2 ** (10 * " KMGT".index(prefix.upper())) if binary else _FACTOR[prefix])
    if not 1 <= value <= _MOST_BYTES:
        raise UserError(
            field,
            given,
            "is not a size from 1 byte to 1024 TiB",
            "Write it as 6GiB, 600MB or a number of bytes",
        )
    return int(value)


def _written(form: re.Pattern[str], text: str) -> re.Match[str] | None:
    return form.fullmatch(text) if len(text) <= _LONGEST else None


def exact_rate(text: str, field: str) -> str:
    """`100Mbit` of `0100 Mbit/s`: one spelling for all ways to write a rate, with all digits that tell it from others.
    It can be asked for again as it is. Raises as `parse_rate` does."""
    bps = parse_rate(text, field)
    factor, prefix = next((factor, prefix) for factor, prefix in _PREFIXES if bps >= factor)
    return f"{bps / factor:.15g}{prefix}bit"


def format_rate(bps: float) -> str:
    """`300 Mbit/s` of 300000000."""
    for factor, prefix in _PREFIXES:
        if bps >= 0.9995 * factor:  # what rounds to 1000 of one prefix is 1 of the next
            return f"{bps / factor:.3g} {prefix}bit/s"
    return f"{bps:.3g} bit/s"


def format_bytes(count: float) -> str:
    """`232.6 MiB` of 243860896."""
    for factor, prefix in _BINARY:
        if count >= factor:
            return f"{count / factor:.1f} {prefix}B"
    return f"{count:.0f} B"


def format_enough(count: int) -> str:
    """As `format_bytes`, rounded up: `152.8 KiB` of 156416, so that whoever gives as much gives enough."""
    for factor, prefix in _BINARY:
        if count >= factor:
            tenths = -(-10 * count // factor)
            return f"{tenths // 10}.{tenths % 10} {prefix}B"
    return f"{count} B"


def format_time(nanoseconds: float) -> str:
    """`5.24 ms` of 5240000; from a second on in seconds."""
    ms = nanoseconds / 1e6
    return f"{ms:.3g} ms" if ms < 999.5 else f"{ms / 1e3:.1f} s"
