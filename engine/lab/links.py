"""One host's link to the switch: what `ip` and `tc` are told, and the kernel parameters of the host.

A token bucket (tbf) shapes each direction where it begins: host to switch on the host's `eth0`, switch to host on
the switch's port, so that several senders to one host meet in that port's queue, as on a real switch. Measured with
plain TCP on two cores (kernel 6.18, goodput over rate): one way 0.956, both ways at once 0.953, at 100 Mbit/s and
1 Gbit/s alike. What it takes to have that and short queues at once:

- Super-packets are limited to a millisecond: 64 KiB would hold 100 Mbit/s for 5 ms. Smaller ones cost processor time
  that the engine then lacks: with a quarter of a millisecond a step of P3 took 92 % of two cores at 150 Mbit/s, with
  one 61 %. They keep four segments at least, since every one is acknowledged: with two, acknowledgements take 2 % of
  the way back.
- `tcp_limit_output_bytes`: what one socket may have in its host's queue, half a millisecond. The kernel's own choice
  makes 10 ms of a queue that no priority can overtake; with it a ping beside full load takes 1.5 ms, not 10.
- The port of the switch holds 10 ms and drops what comes beyond, as a switch does; with more (4 MB), many senders
  build a queue of 280 ms. Our transport's credit keeps its own queue there short; Gloo meets the drops.
- Reno, without timestamps: it is there on every kernel and allowed in every namespace. BBR would set a pace of its
  own, and timestamps cost 0.8 % of every segment.
"""

from __future__ import annotations

from dataclasses import dataclass

INTERFACE = "eth0"
"""Every host's."""
MTU = 1500
_HEADERS = 54
"""Ethernet, IP and TCP without options."""
_SUPER_PACKET_S = 0.001
_SUPER_PACKET_SEGMENTS = 4
_LARGEST_SUPER_PACKET = 65536
_UNSENT_S = 0.0005
_BURST_S = 0.0005
_PORT_S = 0.010
_PORT_LEAST = 64 * 1024
_HOST_QUEUE = 4 * 2**20
"""Never reached: each socket has its limit. A drop here would be no network's."""
_DELAYED_PACKETS = 100_000


@dataclass(frozen=True, kw_only=True)
class Link:
    """A host's link, both directions alike."""

    rate_bps: int | None = None
    """Bits per second in each direction; None: as fast as it goes."""
    latency_ns: int | None = None
    """Delay of everything that comes to this host, so that a way between two hosts has it once. None: none is added.
    Needs the kernel's netem."""

    def interface_lines(self, device: str) -> list[str]:
        """For `ip`, in the namespace of `device`, either end."""
        if self.rate_bps is None:
            return []
        size = self._super_packet
        segments = max(1, size // (MTU - 40))
        return [f"link set {device} gso_max_size {size} gso_max_segs {segments} gro_max_size {size}"]

    def host_lines(self) -> list[str]:
        """For `tc` in the host's namespace: host to switch."""
        return [] if self.rate_bps is None else [self._bucket(f"dev {INTERFACE} root", _HOST_QUEUE)]

    def port_lines(self, port: str) -> list[str]:
        """For `tc` in the switch's namespace: switch to host. What is delayed queues for the rate afterwards."""
        lines, place = [], f"dev {port} root"
        if self.latency_ns:
            lines.append(
                f"qdisc add {place} handle 1: netem delay {self.latency_ns / 1000:g}us limit {_DELAYED_PACKETS}"
            )
            place = f"dev {port} parent 1:1"
        if self.rate_bps is not None:
            lines.append(self._bucket(place, max(_PORT_LEAST, self._bytes_in(_PORT_S))))
        return lines

    def parameters(self) -> dict[str, str]:
        """Kernel parameters of the host."""
        found = {"ipv4/tcp_congestion_control": "reno", "ipv4/tcp_timestamps": "0"}
        if self.rate_bps is not None:
            found["ipv4/tcp_limit_output_bytes"] = str(max(MTU, self._bytes_in(_UNSENT_S)))
        return found

    def _bucket(self, place: str, limit: int) -> str:
        burst = max(self._super_packet + 2 * MTU, self._bytes_in(_BURST_S))
        return f"qdisc add {place} tbf rate {self.rate_bps}bit burst {burst} limit {limit}"

    @property
    def _super_packet(self) -> int:
        least = _SUPER_PACKET_SEGMENTS * (MTU - 40) + _HEADERS
        return min(_LARGEST_SUPER_PACKET, max(least, self._bytes_in(_SUPER_PACKET_S)))

    def _bytes_in(self, seconds: float) -> int:
        assert self.rate_bps is not None
        return int(self.rate_bps * seconds / 8)
