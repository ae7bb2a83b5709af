"""The kinds of message of the runtime, and the lanes (receive queues) of a process."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeAlias

Payload: TypeAlias = memoryview | None
"""What a handler gets: received bytes, or None where there are none or they lie where `place` said."""


class Lane(IntEnum):
    """Which receive queue of a process a message is for."""

    WORKER = 0
    SERVER = 1
    DEVICE = 2


class Message(IntEnum):
    """What a message means. Payload in brackets."""

    INIT = 1
    """Worker 0's initial value of a parameter or buffer [the tensor]; unit = its position in the state."""
    LENGTH = 2
    """Worker 0 tells dedicated servers how many steps the job has [none; `step` is their number]."""
    FINISH = 15
    """A worker contributes nothing to a unit after `step`, and wants it when nobody does any more [none]. It tells the
    unit's server, or its peers."""
    PUSH = 3
    """A worker's gradient of a unit for its server [present pieces; presence mask in meta]."""
    NOTIFY = 4
    """A server has updated a unit [none]."""
    PULL = 5
    """A worker asks for a unit of at least a version [none; `step` is the version's step]."""
    ANSWER = 6
    """A unit from its server: parameters, what these have moved by (`part` is 1 where it is the parameters all the
    same), or summed gradients where workers update [pieces; mask in meta]."""
    ROUND = 7
    """A part of a unit in an allreduce in rounds; part = round [the part; mask in meta]."""
    ROUND_START = 8
    """A rank's own gradients of a unit are ready for the rounds [none; mask in meta]; never leaves the process."""
    ENCODE = 26
    """A unit's own contribution can be encoded, or what was to follow it can leave [none]; never leaves the process."""
    GATHER = 9
    """One worker's part of an all-gather outside the training exchange [tensors]; `step` is its number."""
    TEAM_GATHER = 23
    """The same among the workers that hold one stage [tensors]."""
    STOP = 16
    """Worker 0 tells workers that drift that the model is good enough [none]."""
    LOST = 17
    """A worker was lost, and the job goes on [none; `part` is the worker, the reason in meta]; never leaves the
    process."""
    RETURNED = 18
    """A worker that was lost has connected again [none; `part` is the worker, `step` its incarnation]; never leaves the
    process."""
    WELCOME = 19
    """A server tells a worker that has returned from which step on it may contribute [none; `step` is that step; `part`
    is 1 where nobody else contributes any more]."""
    UPDATE = 25
    """What a worker has changed in a unit, for each of its peers [present pieces; mask in meta]."""
    JOIN = 24
    """A worker that has returned will contribute from `step` on, the latest of all servers' [none]."""
    END = 10
    """Worker 0 tells the dedicated servers and devices that training is over [none]."""
    FACTORS = 11
    """A worker's factors of a unit [inputs, then error derivatives, row by row; whose, rows and type in meta]."""
    WHOLE_GRADIENT = 12
    """In place of a unit's factors, in a step in which they are not its gradient [those present; whose in meta]."""
    ASSIGN = 13
    """What a worker's model has written to a unit's parameters, for their server, ahead of the worker's gradient
    [worker 0's values; their checksums in meta]."""
    CHECKSUMS = 14
    """What a worker has seen of its parameters in a step [none; JSON in meta]."""
    ACTIVATION = 20
    """A worker's piece of a pass for the device that computes the rest [the activation; scale, shape and targets in
    meta]; part = the pass's number."""
    ACTIVATION_GRADIENT = 21
    """What a device answers to a piece, or a stage to the one before it [the activation's gradient, none in an
    evaluation; from a device the loss in meta]."""
    WORD = 27
    """Worker 0's word about checkpoints [none; JSON in meta]; `step` is its number."""
    CAPTURE = 28
    """Worker 0 tells a shard to save what it has after `step` steps [none]."""
    CAPTURED = 29
    """A shard has captured its state [none; `step` is the cut's]: who hears it may go on."""
    PAUSE = 30
    """Worker 0 tells workers that drift to stop for a checkpoint, and they say that they have heard it [none; JSON in
    meta]; `step` is the cut's."""
    PAUSED = 31
    """A worker that drifts contributes nothing to its `step` before it hears that a shard has captured [none; `part` is
    the cut's step]."""
    LEAVE = 32
    """A worker that drifts asks worker 0 whether a checkpoint is still to be made before it ends, and is told that none
    is [none]."""
    GOES_ON = 33
    """A worker that drifts tells another one that it has done the steps before `step` [none]."""
    STATE = 22
    """The trained value of a tensor that lives on a device, for worker 0 [the tensor]; unit = its position."""
