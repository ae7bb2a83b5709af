"""NetworkSpec: what a person says about the network between a job's workers."""

from __future__ import annotations

from dataclasses import dataclass

from engine.catalogue import STRICT
from engine.errors import UserError
from engine.plan.units_of_measure import parse_duration, parse_rate

MOST_HOSTS = 64
"""Of a lab on one machine."""


@dataclass(frozen=True, kw_only=True)
class NetworkSpec:
    """The network between the workers."""

    __pydantic_config__ = STRICT

    rate: str | None = None
    """Limit of each host's port and direction, as `300Mbit` or `10Gbit`. Null: as fast as it goes. Without `hosts`
    our transport keeps it in software, which PyTorch's native collectives cannot."""
    hosts: int | None = None
    """Run the parties on so many hosts of a lab on this machine: network namespaces whose links the kernel shapes,
    for every strategy alike. Party i lives on host i % hosts; of a pipeline's n workers, neighbours share one: host
    i * hosts // n. Null: no lab. Needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN) and iproute2."""
    declared_rate: str | None = None
    """What the network is known to do for each host and direction, as `10Gbit`, where nothing limits it here and its
    interfaces do not say it themselves: figures show shares of it. Null: not known."""
    host_rates: tuple[str, ...] = ()
    """Rates of the hosts one by one, where they differ. Needs `hosts`; takes the place of `rate`."""
    latency: str | None = None
    """Delay of every way from one host to another, as `0.1ms`. Needs `hosts`, and a kernel with netem."""
    trusted: bool = False
    """Whether the network between machines is private: nobody else hears or changes what travels there. A job whose
    parties live on several machines needs that, since what they send one another is authenticated when they connect,
    but not encrypted."""

    def __post_init__(self) -> None:
        if self.rate is not None:
            parse_rate(self.rate, "rate")
        for position, rate in enumerate(self.host_rates):
            parse_rate(rate, f"host_rates.{position}")
        if self.declared_rate is not None:
            parse_rate(self.declared_rate, "declared_rate")
            if self.rate is not None or self.hosts is not None:
                rule = "rate and hosts say themselves how fast the network is"
                raise UserError("declared_rate", self.declared_rate, rule, "Leave it out")
        if self.latency is not None:
            parse_duration(self.latency, "latency")
        if self.hosts is not None and not 1 <= self.hosts <= MOST_HOSTS:
            raise UserError("hosts", self.hosts, f"a lab has 1 to {MOST_HOSTS} hosts", "Use fewer")
        if self.hosts is None:
            for name in ("host_rates", "latency"):
                if value := getattr(self, name):
                    raise UserError(name, value, "only a lab's links have it", "Give hosts, or leave it out")
        elif self.host_rates and len(self.host_rates) != self.hosts:
            raise UserError(
                "host_rates",
                self.host_rates,
                f"{len(self.host_rates)} rates for {self.hosts} hosts",
                "Give one rate per host, or rate for all",
            )
        if self.host_rates and self.rate is not None:
            raise UserError("rate", self.rate, "host_rates say it host by host", "Give one of the two")

    @property
    def rate_bps(self) -> int | None:
        """The limit in bits per second; the slowest host's where they differ."""
        if self.host_rates:
            return min(parse_rate(rate, "host_rates") for rate in self.host_rates)
        return None if self.rate is None else parse_rate(self.rate, "rate")

    @property
    def declared_rate_bps(self) -> int | None:
        """What the network is said to do, in bits per second."""
        return None if self.declared_rate is None else parse_rate(self.declared_rate, "declared_rate")

    @property
    def host_rates_bps(self) -> tuple[int | None, ...]:
        """One rate per host of the lab, in bits per second; None: unlimited. Empty without a lab."""
        if self.host_rates:
            return tuple(parse_rate(rate, "host_rates") for rate in self.host_rates)
        return (self.rate_bps,) * (self.hosts or 0)

    @property
    def latency_ns(self) -> int | None:
        """The delay in nanoseconds."""
        return None if self.latency is None else parse_duration(self.latency, "latency")
