"""The words of plans, networks and waiting, as the page explains them to who points at one.

Metrics are not among them: `engine/telemetry/definitions.py` defines those.
"""

from __future__ import annotations

from collections.abc import Mapping

WORDS: Mapping[str, str] = {
    "unit": (
        "what travels as one piece: a layer's gradient, a slice of it, or a bucket of several layers, as the "
        "strategy cuts them"
    ),
    "version": (
        "the state of a unit's parameters after a step's update; a layer's next forward pass waits until the version "
        "that it needs has arrived"
    ),
    "exposed wait": (
        "a worker needs a version that has not arrived, and computes nothing until it has; it is drawn in red, and "
        "counted as exposed communication"
    ),
    "software-limited": (
        "Trainyard's own transport paces what it sends so as to keep the rate, on a network that is faster; PyTorch's "
        "native collectives cannot be paced in this way"
    ),
    "lab": "several hosts on this machine: network namespaces whose links the kernel limits, for every strategy alike",
    "rehearsal": (
        "processes, gradients and bytes are real and travel on a real, limited network; computation is waited for, as "
        "long as a profile says that a device takes, so that no GPU is busy"
    ),
    "profile": "how long each layer of a model computes on a device, measured or derived from its operations",
    "strategy": "how the workers synchronize: which units travel, when, in which order, and where they are summed",
    "round": (
        "of a race: every member runs once, close together in time, and times are compared within the round; three are "
        "the fewest that prove a difference; a member that joins later runs the rounds that are over by itself, and is "
        "not compared in them"
    ),
    "port": (
        "a host's way into the network, with a rate for each direction; it limits a job where the busiest one is used "
        "for most of its rate while workers wait"
    ),
    "processors": (
        "those of the machine that the job may use; they limit a job where they are busy nearly all the time: how "
        "much of that is the job's own is said beside it, and the rest is what other programs took"
    ),
    "member": "of a race: a strategy with its options; all members run the same job",
}
"""One sentence for each."""
