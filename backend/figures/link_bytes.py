"""What went over a link in each bin of time, by layer: the one table that figure and REST series are made of.

A party's own transport counts its layers' bytes. An interface that carries several parties' (the one of a lab's host,
or the machine's) has the sum of theirs, and what it counted beyond them is `other`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backend.figures.facts import LinkFacts
from backend.figures.source import BIN_ROW, Source
from engine.telemetry.definitions import other_bytes
from engine.telemetry.events import ALL_LAYERS, Direction
from engine.telemetry.recorder import TRANSPORT


@dataclass(frozen=True, kw_only=True)
class LinkBytes:
    """One link in one direction."""

    link: LinkFacts
    direction: Direction
    layers: np.ndarray
    """(L, n) bytes of each layer in each bin."""
    other: np.ndarray
    """(n) bytes that belong to no layer."""

    @property
    def total(self) -> np.ndarray:
        """(n) bytes of all."""
        whole: np.ndarray = self.layers.sum(axis=0) + self.other
        return whole


def read_links(
    source: Source,
    links: Sequence[LinkFacts],
    level: int,
    bins: tuple[int, int],
    directions: Sequence[Direction] = tuple(Direction),
) -> list[LinkBytes]:
    """Both directions of these links over bins (first, last) at `level`; those in which nothing went are left out."""
    everyone, read, found = source.links(), {}, []
    for link in links:
        parts = []
        for one in (link, *carried(link, everyone)):
            if one.key not in read:
                read[one.key] = source.bins(one, level, *bins)
            rows = read[one.key]
            parts.append(rows if one is link else rows[rows["layer"] >= 0])
        rows = np.concatenate([np.empty(0, BIN_ROW), *parts])
        for direction in directions:
            own = rows[rows["direction"] == direction]
            if own["bytes"].any():
                found.append(table(link, direction, own, len(source.job.layers), bins))
    return found


def carried(link: LinkFacts, links: Sequence[LinkFacts]) -> list[LinkFacts]:
    """The other parties' transports whose bytes go over an interface: those of its host."""
    if link.interface == TRANSPORT:
        return []
    return [one for one in links if one.interface == TRANSPORT and one.host == link.host and one != link]


def apart(links: Sequence[LinkFacts]) -> list[LinkFacts]:
    """Those of a job's own links that together hold each byte once: what the whole machine sent is not the job's, and
    an interface has what the transports on its host sent."""
    own = [one for one in links if not one.shared]
    return [one for one in own if not any(one in carried(other, own) for other in own)]


def table(
    link: LinkFacts, direction: Direction, rows: np.ndarray, layers: int, bins: tuple[int, int]
) -> LinkBytes:
    """BIN_ROW of one link and direction as a table of the bins from first to last of `bins`."""
    first, count = bins[0], bins[1] - bins[0] + 1
    layers = max(layers, int(rows["layer"].max(initial=-1)) + 1)
    whole = np.zeros((layers + 2, count), np.int64)  # the last two rows: ALL_LAYERS (-2), NO_LAYER (-1)
    np.add.at(whole, (rows["layer"], rows["bin"] - first), rows["bytes"])
    named = whole[:layers]
    other = np.maximum(other_bytes(whole[ALL_LAYERS], named.sum(axis=0)), whole[-1])
    return LinkBytes(link=link, direction=direction, layers=named, other=other)
