"""A gang whose parties live on hosts that share no folder: where each is reached, and what such a job cannot do yet.

Each host has an attempt's directory of its own, with the same `launch.json` and the same token, and a gang of its own
that starts the parties at its address. What parties say to everybody goes over the board (`engine/transport/board.py`).
What else they leave as files is for whoever started them, on their own host.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

from engine.axes.exchange import EXCHANGE
from engine.errors import UserError
from engine.plan.job import JobSpec
from engine.plan.plan import Plan, Wrapper

_ALONE = "Run it on one machine"


def check_places(
    addresses: tuple[str, ...], port: int | None, *, parties: int, job: JobSpec, plan: Plan | Wrapper
) -> None:
    """Raise UserError where the parties cannot be reached at these `addresses`, one each, and party 0 for all at
    `port`, or where the job cannot span hosts."""
    if not addresses:
        if port is not None:
            raise UserError("port", port, "parties of one machine meet over a file", "Leave it out")
        return
    if len(addresses) != parties:
        rule = f"{len(addresses)} addresses for {parties} parties"
        raise UserError("addresses", addresses, rule, "Give one for each, workers first, then servers")
    if port is None or not 1 <= port <= 65535:
        rule = f"the others find the first party there, at {addresses[0]}"
        raise UserError("port", port, rule, "Give a port from 1 to 65535 that is free on that host")
    found = [_address(f"addresses.{index}", text) for index, text in enumerate(addresses)]
    _check_job(job, plan)
    if not job.network.trusted and not all(one.is_loopback for one in found):
        raise UserError(
            "network.trusted",
            job.network.trusted,
            f"parties at {', '.join(dict.fromkeys(addresses))} would send parameters and gradients unencrypted",
            "Say network: {trusted: true} where nobody else hears or changes what travels there, or run the job on"
            " one machine",
        )


def _check_job(job: JobSpec, plan: Plan | Wrapper) -> None:
    if job.network.hosts is not None:
        rule = "a lab's hosts are on one machine, and the parties have addresses of their own"
        raise UserError("network.hosts", job.network.hosts, rule, "Leave out the one or the other")
    if job.cluster.workers > 1 and runs_collectives(plan):
        rule = "PyTorch's own collectives find one another over a file that all workers see"
        raise UserError(
            "strategy", job.strategy.name, rule, f"{_ALONE}, or choose a strategy on our transport"
        )
    if job.cluster.worker_loss != "end":
        rule = "who was lost, and who is there again, is written down where all parties see it"
        raise UserError("cluster.worker_loss", job.cluster.worker_loss, rule, f"{_ALONE}, or use end")
    if job.checkpoint.asked is not None:
        rule = "the parts of a checkpoint are put together in a folder that all parties see"
        raise UserError("checkpoint", job.checkpoint.asked, rule, f"{_ALONE}, or leave it out")
    if job.checkpoint.start is not None:
        rule = "what the job begins with is put together in a folder that all parties see"
        raise UserError("checkpoint.start.job", job.checkpoint.start.job, rule, f"{_ALONE}, or leave it out")


def _address(field: str, text: str) -> IPv4Address | IPv6Address:
    try:
        found = ip_address(text)
    except ValueError:
        rule = "a party binds, and is reached at, one address of its host's"
        raise UserError(field, text, rule, "Give an IPv4 or IPv6 address, as 10.0.0.7, and no name") from None
    if found.is_unspecified or found.is_multicast:
        rule = "nobody is reached there"
        raise UserError(field, text, rule, "Give the address of one of the host's interfaces")
    if text != str(found):
        rule = "parties with one address live on one host, and an address has one spelling here"
        raise UserError(field, text, rule, f"Write {found}")
    return found


def rendezvous_url(address: str, port: int) -> str:
    """Where the first party holds the board, for `Rendezvous`."""
    return f"tcp://[{address}]:{port}" if ":" in address else f"tcp://{address}:{port}"


def runs_collectives(plan: Plan | Wrapper) -> bool:
    """Whether workers exchange anything through torch.distributed, and not through our transport."""
    if isinstance(plan, Wrapper):
        return True
    return any("counted" not in EXCHANGE[layer.exchange].traits for layer in plan.layers)
