"""The lab: one namespace per host, one for the switch between them; made at once, removed at once.

    switch namespace: bridge br0 with ports p0, p1, ...
        |  a veth pair each, shaped at both ends
    host namespace i: eth0 with 10.77.0.<i + 1>, and lo

Labs do not see each other, so every one uses the same addresses. Nothing changes in the namespace of the caller,
but for the names in /run/netns. Hosts share the machine's files, and reach nothing but each other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from engine.lab import namespace, owner
from engine.lab.links import INTERFACE, Link
from engine.lab.namespace import LabError
from engine.plan.network import MOST_HOSTS

_QUIET = {"ipv6/conf/all/disable_ipv6": "1", "ipv6/conf/default/disable_ipv6": "1"}
"""No neighbour discovery on the links: what their counters show is the job's."""
_IPV6 = Path("/proc/sys/net/ipv6")


def address(host: int) -> str:
    """The address of a host, the same in every lab."""
    return f"10.77.0.{host + 1}"


def host_namespace(stem: str, host: int) -> str:
    """The name of a host's namespace; `stem` is its lab's."""
    return f"{stem}-h{host}"


class Lab:
    """Hosts of the calling process: they are removed by `close`, or, when the process is dead and nobody lives in
    them any more, by the next lab's beginning (`owner.sweep`)."""

    def __init__(self, stem: str, links: Sequence[Link]) -> None:
        """Use `create`."""
        self.stem = stem
        """What the names of its namespaces begin with."""
        self.links = tuple(links)
        self._namespaces = [f"{stem}-sw", *(host_namespace(stem, host) for host in range(len(links)))]

    @classmethod
    def create(cls, run: str, links: Sequence[Link]) -> Lab:
        """Build one host per link and connect them. `run` is part of the names of the namespaces.

        Takes about 50 ms and 30 ms more per host. Raises LabError, with nothing left, where that is not permitted,
        a tool or a kernel module is missing, or this process has a lab of that name already."""
        if not 1 <= len(links) <= MOST_HOSTS:
            raise LabError(f"{len(links)} links: a lab has 1 to {MOST_HOSTS} hosts")
        owner.sweep()
        lab = cls(owner.stem(run), links)
        if clash := set(lab._namespaces) & set(namespace.names()):
            raise LabError(f"this process has a lab {run!r} already: {sorted(clash)[0]}. Close it first")
        try:
            lab._build()
        except BaseException:
            with contextlib.suppress(LabError):
                lab.close()
            raise
        return lab

    def enter(self, host: int) -> None:
        """The calling thread joins a host, for good; call it in a process before it starts other threads."""
        namespace.enter(host_namespace(self.stem, host))

    def address(self, host: int) -> str:
        """Where a host is reached by the others."""
        return address(host)

    def vanished(self) -> str:
        """The name of its switch's namespace where somebody else has removed it, and with it every link; else empty.

        Asked of the switch only: processes that live in a host keep that one alive without its name."""
        switch = self._namespaces[0]
        return "" if namespace.DIRECTORY.joinpath(switch).exists() else switch

    def close(self) -> None:
        """Remove the lab. Harmless when it is gone. Raises LabError where something stays.

        A process that still lives in a host keeps its own end, without a link."""
        owner.remove(self._namespaces)

    def _build(self) -> None:
        switch, *hosts = self._namespaces
        namespace.batch("ip", [f"netns add {name}" for name in self._namespaces])
        for name in self._namespaces:
            if _IPV6.exists():
                namespace.set_parameters(name, _QUIET)
        namespace.batch(
            "ip",
            [
                f"link add name {INTERFACE} netns {name} type veth peer name p{host} netns {switch}"
                for host, name in enumerate(hosts)
            ],
        )
        ports = [f"p{host}" for host in range(len(hosts))]
        shaped = list(zip(ports, self.links, strict=True))
        namespace.batch(
            "ip",
            ["link add br0 type bridge mcast_snooping 0", "link set br0 up"]
            + [line for port, link in shaped for line in link.interface_lines(port)]
            + [f"link set {port} master br0 up" for port in ports],
            switch,
        )
        namespace.batch("tc", [line for port, link in shaped for line in link.port_lines(port)], switch)
        for host, (name, link) in enumerate(zip(hosts, self.links, strict=True)):
            namespace.set_parameters(name, link.parameters())
            namespace.batch(
                "ip",
                [
                    "link set lo up",
                    f"address add {address(host)}/24 dev {INTERFACE}",
                    *link.interface_lines(INTERFACE),
                    f"link set {INTERFACE} up",
                ],
                name,
            )
            namespace.batch("tc", link.host_lines(), name)

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
