"""How much of what is served each shard serves, where the hosts' ports differ.

Host h of port rate r_h, with W_h of the N workers, whose shards serve the share s_h of a model of M bytes, carries in
each direction M (W_h + s_h (N - 2 W_h)) bytes a step: its workers' gradients for other hosts' shards, and its shards'
answers for other hosts' workers (inwards the same in turn; bytes within a host do not count). The longest of these
over r_h bounds a step. Of all shares with the least such bound the most even ones are taken, so that updates, their
memory and their processor time stay spread.
Gains nothing where the longest port does not depend on the shares: two hosts with a worker each, equal ports.
Loses where a port is not what bounds a step, and shards that serve more are slower at updating than the network.
Deviation: answers are counted like gradients, though parameters may travel in another type, and all other traffic of
a mixed plan is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.plan.cluster import Cluster, parties
from engine.plan.layer_rules import is_served
from engine.plan.plan import Plan
from engine.plan.units_of_measure import format_rate

_HALVINGS = 60
_LEAST_GAIN = 0.02
"""Shares that shorten the longest port's time by less are left alike."""
_DIGITS = 4


@dataclass(frozen=True, kw_only=True)
class _Host:
    rate_bps: int
    workers: int
    shards: int
    all_workers: int

    @property
    def slope(self) -> int:
        """Models that its port carries more for each unit of share."""
        return self.all_workers - 2 * self.workers

    def time(self, share: float) -> float:
        """Of its port, in seconds for each bit of the model."""
        return (self.workers + share * self.slope) / self.rate_bps

    def bounds(self, time: float) -> tuple[float, float] | None:
        """The least and the largest share with which its port takes no longer; None where there is none."""
        room = time * self.rate_bps - self.workers
        least = max(0.0, room / self.slope) if self.slope < 0 else 0.0
        most = min(1.0, room / self.slope) if self.slope > 0 else 1.0
        if self.shards == 0:
            most = 0.0
        if least > most or (self.slope == 0 and room < 0):
            return None
        return least, most


def settle_shares(plan: Plan, cluster: Cluster) -> Plan:
    """Give each shard its share, where hosts' ports differ and the plan does not say shares; and the reason."""
    servers = plan.servers
    rates = cluster.host_rates_bps
    if servers.shares or servers.count < 2 or len(set(rates)) < 2 or not any(map(is_served, plan.layers)):
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
    alike = [host.shards / servers.count for host in hosts]
    found = _most_even(hosts, alike)
    before, after = (
        max(host.time(share) for host, share in zip(hosts, shares, strict=True)) for shares in (alike, found)
    )
    if after > (1 - _LEAST_GAIN) * before:
        return plan
    shares = tuple(round(found[host] / hosts[host].shards, _DIGITS) for host in at)
    slowest = min(range(len(rates)), key=rates.__getitem__)
    said = ", ".join(f"{100 * share:.0f} %" for share in shares)
    why = (
        f"Shards serve {said} of the model (shares: by-link): host {slowest}'s port has {format_rate(rates[slowest])}, "
        f"and with equal shares the longest port would be busy {before / after:.2f} times as long."
    )
    return replace(plan, servers=replace(servers, shares=shares), reasons=(*plan.reasons, why))


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
