"""Why a job waits or ended: one code per cause, each with what it means and what to do about it."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """The codes; `summary` and `remedy` say them to a person."""

    WAITING_FOR_DEVICES = "waiting-for-devices"
    WAITING_IN_LINE = "waiting-in-line"
    OVER_QUOTA = "over-quota"
    MAINTENANCE = "maintenance"
    SERVER_PAUSED = "server-paused"
    BACKING_OFF = "backing-off"
    TOO_FEW_DEVICES = "too-few-devices"
    PREEMPTED = "preempted"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    PROCESS_FAILED = "process-failed"
    PROCESS_KILLED = "process-killed"
    OUT_OF_MEMORY = "out-of-memory"
    START_FAILED = "start-failed"
    LAUNCH_FAILED = "launch-failed"
    LAUNCH_INTERRUPTED = "launch-interrupted"
    TERMINATED = "terminated"
    SUPERVISOR_FAILED = "supervisor-failed"
    SUPERVISOR_LOST = "supervisor-lost"
    DIRECTORY_LOST = "directory-lost"
    MACHINE_RESTARTED = "machine-restarted"
    NODE_LOST = "node-lost"
    SERVER_AWAY = "server-away"

    @property
    def summary(self) -> str:
        """What happened, in one sentence."""
        return _TEXTS[self][0]

    @property
    def remedy(self) -> str:
        """What a person can do; empty where there is nothing to do."""
        return _TEXTS[self][1]


_TEXTS: dict[Reason, tuple[str, str]] = {
    Reason.WAITING_FOR_DEVICES: (
        "It is the next one of its kind and waits until enough devices are free.",
        "Wait, or cancel what holds the devices.",
    ),
    Reason.WAITING_IN_LINE: (
        "Jobs with a higher priority, or older ones, go first.",
        "Wait, or submit it with a higher priority.",
    ),
    Reason.OVER_QUOTA: (
        "Its project holds as many devices as it may at once.",
        "Wait for other jobs of the project, or ask an admin for a larger quota.",
    ),
    Reason.MAINTENANCE: (
        "Devices that it needs are in maintenance, or will be before it has ended.",
        "Wait until they are back, or submit it with fewer workers or a shorter duration_s.",
    ),
    Reason.SERVER_PAUSED: (
        "The server is paused: it takes jobs in, but starts none.",
        "Start the server again without TRAINYARD_PAUSED.",
    ),
    Reason.BACKING_OFF: (
        "Its last attempt failed; it waits before the next one.",
        "Wait, or cancel it to remove the cause first.",
    ),
    Reason.TOO_FEW_DEVICES: (
        "It asks for more devices than the server has.",
        "Use fewer workers, or start the server with more devices.",
    ),
    Reason.PREEMPTED: (
        "It makes room for others: it ends its attempt with a checkpoint, and goes on from there when its turn comes.",
        "Wait, or cancel it.",
    ),
    Reason.COMPLETED: ("All its processes did their work.", ""),
    Reason.CANCELLED: ("A person cancelled it.", ""),
    Reason.PROCESS_FAILED: (
        "One of its processes ended with an error; the others were stopped.",
        "The message holds that process's own last error; its log holds the rest.",
    ),
    Reason.PROCESS_KILLED: (
        "A signal from outside ended one of its processes; the others were stopped.",
        "SIGKILL that nobody sent is most often the kernel's answer to exhausted memory: use smaller batches "
        "or fewer workers.",
    ),
    Reason.OUT_OF_MEMORY: (
        "There was no more memory for one of its processes; the others were stopped.",
        "The message says what was asked for and where, what holds memory by the plan, and what leaves more room.",
    ),
    Reason.START_FAILED: (
        "Its processes could not be started; none of them runs.",
        "The message says what failed; logs/supervisor.log in the attempt's directory holds the rest.",
    ),
    Reason.LAUNCH_FAILED: (
        "The executor could not start its supervisor.",
        "The message says what failed; check the data directory's space and permissions.",
    ),
    Reason.LAUNCH_INTERRUPTED: (
        "It was broken off before it was launched whole, as when the server goes down; what had started was ended, and "
        "the job queued again.",
        "",
    ),
    Reason.TERMINATED: (
        "Something outside the server told its supervisor to end, as a machine that shuts down does.",
        "Submit it again.",
    ),
    Reason.SUPERVISOR_FAILED: (
        "Its supervisor met an error of its own and stopped the processes.",
        "The message holds the error: please report it.",
    ),
    Reason.SUPERVISOR_LOST: (
        "Its supervisor vanished without a word; what was left of its processes was killed.",
        "Look for the kernel's out-of-memory messages or for somebody's kill -9, then submit it again.",
    ),
    Reason.DIRECTORY_LOST: (
        "Its directory vanished while it ran; its processes were ended.",
        "What had arrived at the server until then is kept. Find out who removed it, then submit it again.",
    ),
    Reason.MACHINE_RESTARTED: ("The machine restarted while it ran.", "Submit it again."),
    Reason.NODE_LOST: (
        "A machine of the cluster that ran some of its processes was lost; the others were stopped.",
        "Look after that machine, or take it out of the cluster, then submit it again.",
    ),
    Reason.SERVER_AWAY: (
        "The server that looks after it is away, and no other one sees its processes: they may go on.",
        "It is followed again when a server starts with the same data directory; or cancel it.",
    ),
}


CURABLE = frozenset(
    {
        Reason.PROCESS_FAILED,
        Reason.PROCESS_KILLED,
        Reason.OUT_OF_MEMORY,
        Reason.START_FAILED,
        Reason.LAUNCH_FAILED,
        Reason.TERMINATED,
        Reason.SUPERVISOR_LOST,
        Reason.DIRECTORY_LOST,
        Reason.MACHINE_RESTARTED,
        Reason.NODE_LOST,
    }
)
"""Failures that another attempt may cure: something outside went wrong, or may have. A process's own error is
among them, because it may come from outside too (a file share that hung); whoever asks for retries asks for
that. A mistake of the supervisor's own and a machine that is too small stay as they are."""
