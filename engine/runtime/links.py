"""What a party reports on the links that its bytes travel on: which they are, how fast they may be, their counters.

On a lab's host, the first party speaks for the interface that all of the host's parties share and nobody else uses.
Elsewhere every party counts what its own transport and its own collectives move, and the first one of a machine samples
the interface that they are bound to, besides, together with whatever else the machine sends.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping

from engine.lab import INTERFACE
from engine.launch import Launch
from engine.plan.cluster import Party
from engine.plan.scaling import scaled_rate
from engine.spanning import runs_collectives
from engine.telemetry.collectives import Collectives
from engine.telemetry.definitions import LinkRate, link_rate
from engine.telemetry.recorder import TRANSPORT, Recorder
from engine.telemetry.sampler import (
    LOOPBACK_INTERFACE,
    Counters,
    Sampler,
    interface_counters,
    interface_of,
    interface_rate_bps,
)
from engine.transport.counters import Counters as Traffic
from engine.transport.mesh import Address


class PartyLinks:
    """One party's links, from `start` to `close`."""

    def __init__(self, launch: Launch, party: Party) -> None:
        self._launch = launch
        self._party = party
        self._lab_host = launch.host(party)
        self._sampler: Sampler | None = None
        self.near = frozenset(p.index for p in launch.parties if p.host == party.host)
        """Parties on the same host: what goes between them is on no link."""
        self.first = INTERFACE if self._lab_host is not None and party.index == min(self.near) else TRANSPORT
        """The link that send and receive events belong to."""
        self._by_size = launch.job.cluster.workers > 1 and runs_collectives(launch.plan)

    @property
    def host(self) -> str:
        """Whose links these are."""
        return socket.gethostname() if self._lab_host is None else self._party.host

    @property
    def limit_bps(self) -> int | None:
        """What the job limits this party's host to, at the job's scale; None: nothing."""
        network = self._launch.job.network
        limit = network.rate_bps if self._lab_host is None else network.host_rates_bps[self._lab_host]
        return None if limit is None else scaled_rate(limit, self._launch.job.scale)

    def start(
        self,
        recorder: Recorder,
        traffic: Traffic,
        collectives: Collectives,
        addresses: Mapping[int, Address],
    ) -> None:
        """Say how fast the links are, and sample their counters from now on. `traffic` is what the transport counts,
        `collectives` know what torch.distributed moves, `addresses` are where each party listens."""
        sampled: dict[str, Counters] = {}
        own, machine = addresses[self._party.index][0], None
        if self._lab_host is None:
            machine = interface_of(own)
            interface_bps = None if machine is None else interface_rate_bps(machine)
            self._declare(recorder, self.first, self._rate(interface_bps))
        else:  # a veth's own rate is made up: what is not shaped has none
            self._declare(recorder, self.first, self._rate(None))
        if self.first == INTERFACE:
            sampled[INTERFACE] = interface_counters(INTERFACE)
        else:
            sampled[TRANSPORT] = lambda: self._wire_bytes(traffic, collectives)
        is_first = self._party.index == min(i for i, (host, _) in addresses.items() if host == own)
        if machine is not None and is_first:
            # The job's limit is one of our transport, and what is declared speaks of a network, not of the loopback.
            declared = None if machine == LOOPBACK_INTERFACE else self._declared_bps
            rate = link_rate(shaped=None, interface=interface_rate_bps(machine), declared=declared)
            self._declare(recorder, machine, rate, shared=True)
            sampled[machine] = interface_counters(machine)
        self._sampler = Sampler(recorder, sampled)

    def close(self) -> None:
        """Take the last samples."""
        if self._sampler is not None:
            self._sampler.close()

    @property
    def _declared_bps(self) -> int | None:
        declared = self._launch.job.network.declared_rate_bps
        return None if declared is None else scaled_rate(declared, self._launch.job.scale)

    def _rate(self, interface_bps: int | None) -> LinkRate | None:
        return link_rate(shaped=self.limit_bps, interface=interface_bps, declared=self._declared_bps)

    def _declare(
        self, recorder: Recorder, interface: str, rate: LinkRate | None, *, shared: bool = False
    ) -> None:
        recorder.declare_link(
            interface,
            rate_bps=None if rate is None else rate.rate_bps,
            rate_source="unknown" if rate is None else rate.source,
            shared=shared,
            by_size=self._by_size,
        )

    def _wire_bytes(self, traffic: Traffic, collectives: Collectives) -> tuple[int, int]:
        """(sent, received) from and to other hosts."""
        counted = traffic.snapshot()

        def far(payload: Mapping[tuple[int, int], int], overhead: Mapping[int, int]) -> int:
            return sum(n for (peer, _), n in payload.items() if peer not in self.near) + sum(
                n for peer, n in overhead.items() if peer not in self.near
            )

        sent, received = collectives.counted()
        return (
            sent + far(counted.sent_payload, counted.sent_overhead),
            received + far(counted.received_payload, counted.received_overhead),
        )
