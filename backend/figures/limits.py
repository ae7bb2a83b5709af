"""The figures that say what limits a job (`engine.telemetry.limits`), read of one attempt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.figures.processors import Processors
from backend.figures.source import Source
from backend.figures.speed import Speed
from engine.telemetry.definitions import WARM_UP_STEPS, exposed_share, link_utilization
from engine.telemetry.events import ALL_LAYERS, BIN_NS, Direction, Kind, Track
from engine.telemetry.limits import Figures

STEPS = 5
"""Ports are looked at in so many of the latest steps with every event."""
MOST_BINS = 20_000
"""So long a stretch of time at most: 200 s."""


def figures(source: Source, speed: Speed, machine: Processors | None) -> Figures:
    """Of the attempt that `source` reads, whose speed and processors are known."""
    exposed = None
    if speed.exposed_ns is not None and speed.iteration_ns:
        exposed = exposed_share(speed.exposed_ns, speed.iteration_ns)
    waits = speed.longest_input
    ports = ports_while_waiting(source)
    return Figures(
        exposed=exposed,
        port=None if ports is None else ports.any,
        processors=None if machine is None else machine.busy,
        own=None if machine is None else machine.own,
        rehearsed=source.job.rehearsed is not None,
        one_port=None if ports is None else ports.one,
        input=None if waits is None else waits.share,
    )


@dataclass(frozen=True)
class Ports:
    """How busy ports were while workers waited: in each bin of time a utilization, at most 1, weighted by the time in
    it for which workers waited."""

    any: float
    """Of the port that was busiest in each bin, a link's in either direction: `engine.telemetry.limits` says why."""
    one: float
    """Of the one port that was busiest over all bins."""


def ports_while_waiting(source: Source) -> Ports | None:
    """None where no link's rate is known, nothing was waited for, or the steps are gone."""
    links = [link for link in source.links() if link.rate is not None]
    detailed = source.detailed_steps()
    chosen = detailed[detailed >= WARM_UP_STEPS][-STEPS:]
    if not links or not len(chosen):
        return None
    rows = source.step_rows(int(chosen[0]), int(chosen[-1]))
    rows = rows[np.isin(rows["step"], chosen)]
    if not len(rows):  # events without their steps: somebody deletes the job just now
        return None
    from_ns, to_ns = int(rows["start"].min()), int(rows["end"].max())
    if to_ns - from_ns > MOST_BINS * BIN_NS:
        return None
    spans = source.spans(from_ns, to_ns)
    waits = spans[(spans["kind"] == Kind.WAIT) & (spans["track"] == Track.COMPUTE)]
    waits = waits[np.isin(waits["step"], chosen)]
    first, last = from_ns // BIN_NS, to_ns // BIN_NS
    weight = waited(waits["start"], waits["end"], np.arange(first, last + 2) * BIN_NS)
    if not weight.any():
        return None
    busiest, one = np.zeros(last - first + 1), 0.0
    for link in links:
        for direction in Direction:
            moved = source.bins(link, 0, first, last, direction)
            sent = np.zeros((2, len(busiest)))
            np.add.at(
                sent, ((moved["layer"] != ALL_LAYERS).astype(int), moved["bin"] - first), moved["bytes"]
            )
            # Layers' bytes by the transport, or all of the interface's: the one holds the other.
            used = link_utilization(sent.max(axis=0), BIN_NS, link.rate)
            assert used is not None
            used = np.minimum(used, 1.0)
            busiest, one = np.maximum(busiest, used), max(one, float(np.average(used, weights=weight)))
    return Ports(float(np.average(busiest, weights=weight)), one)


def waited(start: np.ndarray, end: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """(n - 1) how long was waited between each two of (n) `edges`, by waits from `start` to `end`, in ns; two that wait
    at the same time count twice."""
    time = np.concatenate([start, end]).astype(np.float64)
    if not len(time):
        return np.zeros(len(edges) - 1)
    order = np.argsort(time, kind="stable")
    time = time[order]
    active = np.cumsum(np.concatenate([np.ones(len(start)), -np.ones(len(end))])[order])
    total = np.concatenate([[0.0], np.cumsum(active[:-1] * np.diff(time))])
    between: np.ndarray = np.diff(np.interp(edges.astype(np.float64), time, total))
    return between
