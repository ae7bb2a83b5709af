"""Inputs: where are the data prepared, and how far ahead?

What a row can is in its traits:

    processes   prepares in processes of the worker's own
    staged      needs data that are made in two stages, of which the second is tensor operations
"""

from engine.catalogue import Axis, Mechanism

INPUT = Axis(
    "input.where",
    "Where are the data prepared?",
    (
        Mechanism(
            name="cpu",
            summary="On the host, in a thread beside the one that trains.",
            implementation="engine.inputs.thread:in_thread",
        ),
        Mechanism(
            name="processes",
            summary="On the host, in processes of each worker's own.",
            implementation="engine.inputs.processes:in_processes",
            traits=frozenset({"processes"}),
        ),
        Mechanism(
            name="device",
            summary="Read on the host, and transformed on the device that trains.",
            implementation="engine.inputs.device:on_device",
            traits=frozenset({"staged"}),
        ),
    ),
)
