"""Inputs: where are the data prepared, and how far ahead?"""

from engine.catalogue import Axis, Mechanism

INPUT = Axis(
    "input.where",
    "Where are the data prepared?",
    (
        Mechanism(
            name="cpu",
            summary="On the host, then copied to the device.",
            implementation="engine.inputs.loader:Loader",
        ),
        Mechanism(
            name="device",
            summary="On the device itself.",
            missing="device preprocessing is not built yet",
        ),
    ),
)
