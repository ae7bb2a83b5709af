"""Nodes: the machines on which jobs are placed."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from backend.schemas.base import Schema
from backend.schemas.catalogue import Device


class Interface(Schema):
    """A network interface."""

    name: str
    address: str | None
    """Its first IPv4 address. Null: it has none."""
    rate_bps: int | None
    """The speed of its link, in bit/s. Null: it is virtual or unplugged, or does not say."""


class NodeView(Schema):
    """One machine: servers on it place jobs on its devices."""

    id: int
    """It stays, whatever the node is called."""
    name: str
    """What the machine calls itself; two may have the same name."""
    address: str | None
    """Its first IPv4 address, of hardware before a virtual interface's. Null: only its loopback has one."""
    interfaces: list[Interface]
    cpu_slots: int
    """Of all its servers."""
    servers: list[str]
    """As people call them: process and address."""
    state: Literal["up", "away"]
    """`away`: none of its servers has given a sign of life for 15 s. What runs there may well go on."""
    seen_at: datetime
    """When one of its servers gave a sign of life last: away since then."""
    devices: list[Device]
    """What it has, and who is on it since when. GPUs are the machine's, slots each server's own."""
    free: dict[str, int]
    """Kind of device to how many a job could get now; none of a node, or slots of a server, that is away."""
