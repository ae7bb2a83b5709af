"""What one worker's link carried, bin by bin, from a finished attempt's recorded samples."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from engine.launch import Launch
from engine.telemetry.batch import Batch, LinkInfo, decode
from engine.telemetry.definitions import LinkRate, link_utilization
from engine.telemetry.events import ALL_LAYERS, BIN_NS, STEP, Direction
from engine.telemetry.recorder import TRANSPORT
from engine.telemetry.spool import parties

IDLE = 0.05
"""A bin below this share of the link's rate counts as idle."""


@dataclass(frozen=True, kw_only=True)
class LinkBins:
    """Utilization of one link in bins of `bin_ns`, whole steps only. 1 is the link's rate."""

    interface: str
    rate_bps: int
    """Of the link as it was shaped, scaled where the job is."""
    tx: np.ndarray
    """(bins,) float: outwards."""
    rx: np.ndarray
    """(bins,) float: inwards."""
    bin_ns: int = BIN_NS

    @property
    def idle(self) -> tuple[float, float, float]:
        """Share of bins in which nothing leaves, nothing arrives, neither."""
        tx, rx = self.tx < IDLE, self.rx < IDLE
        return float(tx.mean()), float(rx.mean()), float((tx & rx).mean())

    def joined(self, count: int) -> LinkBins:
        """The same in bins `count` times as long; what does not fill the last one is left out."""
        whole = len(self.tx) // count * count

        def mean(bins: np.ndarray) -> np.ndarray:
            return bins[:whole].reshape(-1, count).mean(axis=1)

        return replace(self, tx=mean(self.tx), rx=mean(self.rx), bin_ns=self.bin_ns * count)

    @property
    def both(self) -> float:
        """Share of bins in which both directions are in use."""
        return float(((self.tx >= IDLE) & (self.rx >= IDLE)).mean())


def read(launch: Launch, rank: int, warm_up: int) -> LinkBins:
    """The bins of worker `rank` from the start of step `warm_up` to the end of its last. The host's interface where it
    was sampled, else the transport's own counters. Raises ValueError where nothing was recorded or the link has no
    rate."""
    batches = _batches(launch, rank)
    links = [link for batch in batches for link in batch.links if not link.shared]
    if not links:
        raise ValueError(f"{launch.job.name}: worker {rank} recorded no link")
    link = min(links, key=lambda each: each.interface == TRANSPORT)
    if link.rate_bps is None:
        raise ValueError(f"{launch.job.name}: the rate of {link.interface} is not known")
    steps = np.concatenate([np.empty(0, STEP), *(batch.table("steps") for batch in batches)])
    warm = steps[steps["step"] >= warm_up]
    first, last = int(warm["start"].min()) // BIN_NS + 1, int(warm["end"].max()) // BIN_NS
    rate = LinkRate(rate_bps=link.rate_bps, source="shaped")

    def utilization(direction: Direction) -> np.ndarray:
        found = link_utilization(_bytes(batches, link, direction, first, last), BIN_NS, rate)
        assert found is not None
        return found

    return LinkBins(
        interface=link.interface,
        rate_bps=link.rate_bps,
        tx=utilization(Direction.TX),
        rx=utilization(Direction.RX),
    )


def _batches(launch: Launch, rank: int) -> list[Batch]:
    index = next(party.index for party in launch.parties if party.rank == rank)
    return [
        decode(body)
        for reader in parties(launch.spool)
        if reader.party == index
        for sequence in reader.sequences()
        if (body := reader.read(sequence)) is not None
    ]


def _bytes(batches: list[Batch], link: LinkInfo, direction: Direction, first: int, last: int) -> np.ndarray:
    """(last - first,) bytes of all layers, counted on `link` in the bins from `first` up to, not including, `last`."""
    found = np.zeros(last - first)
    for batch in batches:
        bins = batch.table("bins")
        numbers = [n for n, each in enumerate(batch.links) if each.interface == link.interface]
        chosen = np.isin(bins["link"], numbers) & (bins["layer"] == ALL_LAYERS)
        chosen &= (bins["direction"] == direction) & (bins["bin"] >= first) & (bins["bin"] < last)
        np.add.at(found, bins["bin"][chosen] - first, bins["bytes"][chosen])
    return found
