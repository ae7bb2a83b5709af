"""How much of what is served each shard serves, where the hosts' ports differ.

Host h of port rate r_h, with W_h of the N workers, whose shards serve the share s_h of M bytes, carries in each
direction M (W_h + s_h (N - 2 W_h)) bytes a step: its workers' gradients for other hosts' shards, and its shards'
answers for other hosts' workers (inwards the same in turn; bytes within a host do not count). The longest of these
over r_h bounds a step. Of all shares with the least such bound the most even ones are taken, so that updates, their
memory and their processor time stay spread. Layers and slices are not cut finer for it: shares are only taken where
what shards then get shortens the longest port.
Gains nothing where the longest port does not depend on the shares, as with a worker on each of two hosts.
Loses where a port is not what bounds a step, and shards that serve more are slower at updating than the network.
Deviation: answers are counted like gradients, though parameters may travel in another type, all other traffic of a
mixed plan is left out, and hosts with equal ports are left alone, though some may have more workers than others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.plan.cluster import Cluster, parties
from engine.plan.description import ModelDescription
from engine.plan.plan import Plan
from engine.plan.units import cut
from engine.plan.units_of_measure import format_rate

_HALVINGS = 60
_LEAST_GAIN = 0.02
"""Shares that shorten the longest port's time by less are left alike."""
_HOSTS_SAID = 8


@dataclass(frozen=True, kw_only=True)
class _Host:
    rate_bps: int
    workers: int
    shards: int
    all_workers: int

    @property
    def slope(self) -> int:
        """How much more its port carries for each unit of share."""
        return self.all_workers - 2 * self.workers

    def time(self, share: float) -> float:
        """Of its port, in seconds for each bit of what is served."""
        return (self.workers + share * self.slope) / self.rate_bps

    def bounds(self, time: float) -> tuple[float, float] | None:
        """The least and the largest share with which its port takes no longer; None where there is none."""
        room = time * self.rate_bps - self.workers
        least = max(0.0, room / self.slope) if self.slope < 0 else 0.0
        most = min(1.0, room / self.slope) if self.slope > 0 else 1.0
        if self.shards == 0:
            most = min(0.0, most)
        if least > most or (self.slope == 0 and room < 0):
            return None
        return least, most


def settle_shares(plan: Plan, model: ModelDescription, cluster: Cluster) -> Plan:
    """Give each shard its share, where hosts' ports differ and the plan does not say shares; and the reason."""
    rates = cluster.host_rates_bps
    if plan.servers.shares or plan.servers.count < 2 or len(set(rates)) < 2:
        return plan
    everybody = parties(plan, cluster.workers, len(rates))
    at = [int(party.host.removeprefix("host")) for party in everybody if party.shard is not None]
    hosts = [
        _Host(
            rate_bps=rate,
            workers=sum(p.rank is not None and p.host == f"host{number}" for p in everybody),
            shards=at.count(number),
            all_workers=cluster.workers,
        )
        for number, rate in enumerate(rates)
    ]
    by_host = _most_even(hosts, [host.shards / len(at) for host in hosts])
    wanted = tuple(float(f"{by_host[host] / hosts[host].shards:.6g}") for host in at)
    shared = replace(plan, servers=replace(plan.servers, shares=wanted))
    alike, found = (_served(one, model, at, len(hosts)) for one in (plan, shared))
    before, after = (
        max(host.time(share) for host, share in zip(hosts, shares, strict=True)) for shares in (alike, found)
    )
    if after >= (1 - _LEAST_GAIN) * before:
        return plan
    return replace(shared, reasons=(*plan.reasons, _why(hosts, alike, found, after / before)))


def _served(plan: Plan, model: ModelDescription, at: Sequence[int], hosts: int) -> list[float]:
    """By host: the part of all elements that its shards get, as the plan's units are cut."""
    counts = [0] * hosts
    for unit in cut(plan, model):
        if unit.shard is not None:
            counts[at[unit.shard]] += unit.count
    return [count / sum(counts) for count in counts]


def _why(hosts: Sequence[_Host], alike: Sequence[float], found: Sequence[float], left: float) -> str:
    longest = max(range(len(hosts)), key=lambda host: hosts[host].time(alike[host]))
    said = [
        f"host {number}: {100 * share:.0f} %" for number, share in enumerate(found) if hosts[number].shards
    ]
    if len(said) > _HOSTS_SAID:
        said = [*said[:_HOSTS_SAID], f"others ({len(said) - _HOSTS_SAID}) the rest"]
    return (
        f"Shards serve by link, as hosts' ports differ: {', '.join(said)} of what is served. With equal shares host "
        f"{longest}'s port ({format_rate(hosts[longest].rate_bps)}) would be busy longest; now the longest is busy for "
        f"{100 * left:.0f} % of that."
    )


def _most_even(hosts: Sequence[_Host], alike: Sequence[float]) -> list[float]:
    """By host: the shares nearest to `alike` of those with which the longest port is busy for the shortest time."""
    low, high = 0.0, max(host.time(share) for host, share in zip(hosts, alike, strict=True))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if _shares(hosts, alike, middle) else (middle, high)
    return _shares(hosts, alike, high) or list(alike)


def _shares(hosts: Sequence[_Host], alike: Sequence[float], time: float) -> list[float] | None:
    """Shares with which no port is busy for longer: `alike` times one number, within each host's bounds."""
    bounds = []
    for host in hosts:
        found = host.bounds(time)
        if found is None:
            return None
        bounds.append(found)
    if not sum(least for least, _ in bounds) <= 1 <= sum(most for _, most in bounds):
        return None

    def at(level: float) -> list[float]:
        return [
            min(max(level * share, least), most) for (least, most), share in zip(bounds, alike, strict=True)
        ]

    low, high = 0.0, 1 / min(share for share in alike if share > 0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if sum(at(middle)) >= 1 else (middle, high)
    return at(high)
