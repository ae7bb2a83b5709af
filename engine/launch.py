"""What the processes of one attempt are told, and where they leave what they say. No torch here.

Layout of an attempt's directory (every file is written to a temporary name and renamed):
  launch.json            this file's `Launch`
  mesh-token             what the attempt's processes know and nobody else; readable by its owner only
  logs/<party>.log       standard output and error of each process
  logs/<party>.times     when the log had how many bytes
  errors/<party>.json    why a process failed, in its own words
  lost/<party>.<n>.json  after how many steps a worker was lost without which shard n goes on
  ready                  where the job goes on without a worker: written once every process is ready to
  joined/<party>.<n>.json  from which step on a worker contributes that was lost n times and has joined again
  spool/                 telemetry batches that the server has not acknowledged
  preempt.json           that the attempt is to end with a checkpoint; preempted.json: that it has, and after which step
  resumed.json           from which step's checkpoint the attempt goes on, where it goes on from one, and whether from
                         another job's
  checkpoints/           the job's checkpoints (`engine/checkpoint/store.py`), unless they lie elsewhere
  result/model.pt        the trained state_dict; result/summary.json: its figures (worker 1: summary-1.json)
  result/updates-0.bin   what the updates of server shard 0 consisted of, where the job has that recorded
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.checkpoint.start import Start
from engine.checkpoint.store import Store
from engine.errors import UserError
from engine.plan.checkpoint import CheckpointSpec
from engine.plan.cluster import Party, host_of, parties
from engine.plan.description import ModelDescription
from engine.plan.job import JobSpec
from engine.plan.plan import Consistency, Plan, Wrapper, replicas
from engine.plan.scaling import scaled_model, scaled_plan
from engine.plan.serde import from_plain, to_plain
from engine.plan.units import cut
from engine.profile import Profile, profile_of
from engine.regular import PRIVATE, read_regular, write_whole
from engine.spanning import check_places, rendezvous_url
from engine.transport.plane import DataPlaneChoice, asked

LAUNCH = "launch.json"
"""In an attempt's directory."""
_TOKEN = "mesh-token"
RESUMED = "resumed.json"
CHECKPOINTS = "checkpoints"
"""The folder's name, of an attempt outside of a service in the attempt's directory, else in the job's."""
_MOST_BYTES = 1000
_MOST_SUMMARY = 2**24
_NOT_TRAINED = frozenset(
    {"name", "baseline", "retry", "priority", "duration_s", "telemetry", "evaluation", "checkpoint", "faults"}
)
"""Of a job: what changes nothing of what is trained."""
_WHERE = frozenset({"nodes", "mixed_gpus"})
"""Of its cluster: which devices it may have, likewise."""
REPLAY = "replay"
"""The device of a rehearsal's workers: they wait as long as their profile says (`engine/replay/device.py`)."""

PATIENCE_S = 5.0
"""How much longer workers wait for an answer: the servers, which know who is missing, are to speak first."""


def worker_part(rank: int) -> str:
    """Of a checkpoint."""
    return f"worker-{rank}"


def shard_part(index: int) -> str:
    """Of a checkpoint."""
    return f"shard-{index}"


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One attempt at a job."""

    attempt: int
    """The attempt's number in the database; 0 outside of a service."""
    job: JobSpec
    plan: Plan | Wrapper
    """Resolved (see `engine.plan.rules`); in a rehearsal scaled, as the processes run it."""
    model: ModelDescription
    """What the processes hold; in a rehearsal scaled. The job itself says true sizes and rates."""
    directory: Path
    """The attempt's directory, on a disk that all its processes see."""
    epoch_unix_ns: int
    """Zero of the attempt's clock, as nanoseconds since 1970."""
    devices: tuple[str, ...]
    """One device per worker, as torch names them, e.g. `cpu` or `cuda:1`; `replay` in a rehearsal."""
    profile: Profile | None = None
    """What a rehearsal replays; None for a job that trains."""
    deadline_s: float = 600.0
    """How long anybody waits for anybody: slow imports and long steps included. Who dies is noticed at once; this
    is for who lives and makes no progress: where workers drift, they wait for one another as long as one goes on."""
    record: bool = True
    """False: of telemetry only the steps' own times are kept, to measure what the rest costs."""
    checkpoints: Path | None = None
    """The folder of the job's checkpoints, on a disk that all processes of all its attempts see; None: in the attempt's
    directory."""
    start: Start | None = None
    """What the job begins with, where it has no checkpoint of its own yet; None: with what its builder gives."""
    data_plane: DataPlaneChoice = "python"
    """Who moves the bytes of its processes, as asked for: see `engine/transport/plane.py`."""
    addresses: tuple[str, ...] = ()
    """Of each party, in their order: the address of its host at which it listens and is reached. Parties with the same
    one live on one host; hosts share no folder (`engine/spanning.py`). Empty: all live on this machine."""
    port: int | None = None
    """Where the first party listens for the rendezvous, at its address; None: all live on this machine."""

    def __post_init__(self) -> None:
        if (self.profile is None) == (self.job.fidelity == "rehearse"):
            raise ValueError("a rehearsal, and nothing else, has a profile: make launches with `prepare`")
        check_places(self.addresses, self.port, parties=len(self.parties), job=self.job, plan=self.plan)

    @property
    def parties(self) -> tuple[Party, ...]:
        """Every process of the attempt."""
        found = parties(self.plan, self.job.cluster.workers, self.job.network.hosts)
        if len(self.addresses) != len(found):  # none, or a launch that is refused
            return found
        hosts = {address: f"host{i}" for i, address in enumerate(dict.fromkeys(self.addresses))}
        return tuple(replace(one, host=hosts[self.addresses[one.index]]) for one in found)

    def parties_at(self, address: str | None) -> tuple[Party, ...]:
        """Those that the gang at this address starts; None: all. Raises UserError where none lives there."""
        if address is not None and address not in self.addresses:
            known = ", ".join(dict.fromkeys(self.addresses)) or "none: the launch is of one machine"
            raise UserError("address", address, "no party of this launch lives there", f"Give one of {known}")
        return tuple(p for p in self.parties if address is None or self.addresses[p.index] == address)

    @property
    def consistency(self) -> Consistency:
        """How far workers may drift; every step under one of PyTorch's wrappers."""
        return self.plan.consistency if isinstance(self.plan, Plan) else Consistency()

    def host(self, party: Party) -> int | None:
        """The host of the lab that a party lives on; None: the job has no lab."""
        hosts = self.job.network.hosts
        return None if hosts is None else host_of(self.plan, self.job.cluster.workers, hosts, party.index)

    @property
    def rendezvous(self) -> str:
        """Where the processes find one another."""
        if self.port is not None:
            return rendezvous_url(self.addresses[0], self.port)
        return f"file://{self.directory / 'rendezvous'}"

    def log(self, party: Party) -> Path:
        return self.directory / "logs" / f"{slug(party.name)}.log"

    def error(self, party: Party) -> Path:
        return self.directory / "errors" / f"{slug(party.name)}.json"

    def whereabouts(self, party: Party) -> Path:
        """See `engine/state/whereabouts.py`."""
        return self.directory / "errors" / f"{slug(party.name)}.where"

    def lost(self, party: Party, teller: int) -> Path:
        """`teller`: the shard, or where there is none the worker, that goes on without it."""
        return self.directory / "lost" / f"{slug(party.name)}.{teller}.json"

    def may_lose(self, party: Party) -> bool:
        """Whether the job goes on without this process."""
        return self.job.cluster.worker_loss != "end" and party.rank not in (None, 0)

    @property
    def ready(self) -> Path:
        """Is there once every process is ready to train, where the job goes on without a worker from then on."""
        return self.directory / "ready"

    @property
    def restarts(self) -> int:
        """How often a worker that was lost is started anew, at most."""
        return self.job.cluster.restarts if self.job.cluster.worker_loss == "rejoin" else 0

    @property
    def cut_spec(self) -> CheckpointSpec:
        """When the job's checkpoints are made."""
        return self.job.checkpoint

    @property
    def has_cuts(self) -> bool:
        """Whether the job has checkpoints."""
        return self.job.checkpoint.asked is not None

    @property
    def checkpoint_folder(self) -> Path:
        """Of the job's checkpoints, and of what it begins with."""
        return self.directory / CHECKPOINTS if self.checkpoints is None else self.checkpoints

    def cuts(self) -> Store:
        """The job's checkpoints."""
        plain = to_plain(self.job)
        said = {name: value for name, value in plain.items() if name not in _NOT_TRAINED}
        said["cluster"] = {name: value for name, value in said["cluster"].items() if name not in _WHERE}
        whole = json.dumps([self.model.checksum, to_plain(self.plan), said], sort_keys=True)
        return Store(
            self.checkpoint_folder,
            fingerprint=hashlib.sha256(whole.encode()).hexdigest(),
            keep=self.job.checkpoint.keep,
        )

    @property
    def cut_shards(self) -> list[int]:
        """The server shards that have units."""
        units = cut(self.plan, self.model) if isinstance(self.plan, Plan) else ()
        return sorted({unit.shard for unit in units if unit.shard is not None})

    @property
    def cut_parts(self) -> list[str]:
        """Of one checkpoint: what each party that writes one calls its part."""
        workers = [worker_part(rank) for rank in range(self.job.cluster.workers)]
        return workers + [shard_part(shard) for shard in self.cut_shards]

    def find_cut(self) -> int | None:
        """Before any process of the attempt starts: the step of the job's own checkpoint that it goes on from; None:
        there is none."""
        return self.cuts().begin(self.cut_parts) if self.has_cuts else None

    def go_on_from(self, step: int, *, another: bool = False) -> None:
        """What all processes of the attempt read: the step of the checkpoint that it goes on from, and whether that is
        `another` job's."""
        write_json(self.directory / RESUMED, {"step": step, "another": another})

    @property
    def resumed(self) -> int | None:
        """The step of the checkpoint that the attempt goes on from; None: it begins."""
        return resumed_step(self.directory) if self.has_cuts or self.start is not None else None

    @property
    def begins_with_another(self) -> bool:
        """Whether that is another job's checkpoint."""
        return self.start is not None and bool(_resumed(self.directory).get("another"))

    def joined(self, party: Party, incarnation: int) -> Path:
        """Where a worker that was started anew says at which step it has joined."""
        return self.directory / "joined" / f"{slug(party.name)}.{incarnation}.json"

    @property
    def spool(self) -> Path:
        return self.directory / "spool"

    @property
    def result(self) -> Path:
        return self.directory / "result"

    def updates(self, shard: int) -> Path:
        """What a shard's updates consisted of, where the job has it recorded."""
        return self.result / f"updates-{shard}.bin"

    def random_states(self, rank: int, incarnation: int = 0) -> Path:
        """With which random states a worker's steps began, where the job has its updates recorded."""
        return self.result / f"random-{rank}.{incarnation}.bin"

    def summary(self, rank: int) -> Path:
        """A worker's figures: the last thing that it writes, so a worker without them has not finished."""
        return self.result / ("summary.json" if rank == 0 else f"summary-{rank}.json")

    def write(self, token: bytes | None = None) -> None:
        """Create the directory and write `launch.json`. `token`: the one that the attempt has on another host; a new
        one unless given."""
        for name in ("logs", "errors", "lost", "joined", "spool", "result"):
            (self.directory / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        write_json(self.directory / LAUNCH, self.to_dict())
        write_whole(self.directory / _TOKEN, token or secrets.token_bytes(32))

    def to_dict(self) -> dict[str, Any]:
        """All but the directory, which is each host's own; for `from_dict`."""
        return {
            "attempt": self.attempt,
            "job": to_plain(self.job),
            "peer": isinstance(self.plan, Wrapper),
            "plan": to_plain(self.plan),
            "model": self.model.to_dict(),
            "epoch_unix_ns": self.epoch_unix_ns,
            "devices": list(self.devices),
            "deadline_s": self.deadline_s,
            "record": self.record,
            "data_plane": self.data_plane,
            "checkpoints": None if self.checkpoints is None else str(self.checkpoints),
            "start": None if self.start is None else self.start.to_dict(),
            "profile": to_plain(self.profile),
            "addresses": list(self.addresses),
            "port": self.port,
        }

    def token(self) -> bytes:
        """What proves to the attempt's other processes that one belongs to them (`engine/transport/greeting.py`)."""
        return (self.directory / _TOKEN).read_bytes()

    @classmethod
    def read(cls, directory: Path) -> Launch:
        """Read `launch.json` of an attempt's directory."""
        return cls.from_dict(json.loads((directory / LAUNCH).read_text(encoding="utf-8")), directory)

    @classmethod
    def from_dict(cls, data: dict[str, Any], directory: Path) -> Launch:
        """What `to_dict` says, of the attempt's directory on this host."""
        return cls(
            attempt=data["attempt"],
            job=from_plain(JobSpec, data["job"]),
            plan=from_plain(Wrapper, data["plan"]) if data["peer"] else from_plain(Plan, data["plan"]),
            model=ModelDescription.from_dict(data["model"]),
            directory=directory,
            epoch_unix_ns=data["epoch_unix_ns"],
            devices=tuple(data["devices"]),
            deadline_s=data["deadline_s"],
            record=data["record"],
            data_plane=asked(data.get("data_plane", "python")),  # an older version's attempt says nothing
            checkpoints=None if data.get("checkpoints") is None else Path(data["checkpoints"]),
            start=Start.of(data.get("start")),
            addresses=tuple(data.get("addresses", ())),
            port=data.get("port"),
            profile=None if data["profile"] is None else from_plain(Profile, data["profile"]),
        )


def prepare(
    job: JobSpec,
    plan: Plan | Wrapper,
    model: ModelDescription,
    directory: Path,
    *,
    attempt: int = 0,
    epoch_unix_ns: int | None = None,
    devices: tuple[str, ...] | None = None,
    record: bool = True,
    checkpoints: Path | None = None,
    start: Start | None = None,
    addresses: tuple[str, ...] = (),
    port: int | None = None,
) -> Launch:
    """The launch of a job whose plan was built for the true `model`: the one place where a rehearsal is scaled and gets
    its profile. `devices`: the CPU unless given; the epoch is now unless given. `addresses`, `port`: where the
    parties are reached, where they live on several hosts. Raises UserError for a profile that does not fit, and for a
    job that cannot live there."""
    rehearsed = job.fidelity == "rehearse"
    if rehearsed or devices is None:
        devices = (REPLAY if rehearsed else "cpu",) * job.cluster.workers
    return Launch(
        attempt=attempt,
        job=job,
        plan=scaled_plan(plan, job.scale),
        model=scaled_model(model, job.scale),
        directory=directory,
        epoch_unix_ns=time.time_ns() if epoch_unix_ns is None else epoch_unix_ns,
        devices=devices,
        profile=profile_of(job, model, replicas(plan, job.cluster.workers)) if rehearsed else None,
        record=record,
        checkpoints=checkpoints,
        start=start,
        data_plane=asked(),
        addresses=addresses,
        port=port,
    )


def resumed_step(directory: Path) -> int | None:
    """The step of the checkpoint that the attempt in `directory` goes on from; None: of none, or it has not begun."""
    step = _resumed(directory).get("step")
    return step if isinstance(step, int) else None


def _resumed(directory: Path) -> dict[str, Any]:
    """What RESUMED says; nothing where it is not there, or a user's code wrote it."""
    try:
        found = json.loads(read_regular(directory / RESUMED, _MOST_BYTES, root=directory))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def ended_steps(directory: Path) -> int | None:
    """How many steps the attempt in `directory` has made, where it has written what it ended with; else None."""
    if not (directory / "result" / "model.pt").is_file():
        return None
    try:
        found = json.loads(read_regular(directory / "result" / "summary.json", _MOST_SUMMARY, root=directory))
    except (OSError, ValueError, RecursionError):
        return None
    steps = found.get("steps") if isinstance(found, dict) else None
    return steps if isinstance(steps, int) else None


def slug(name: str) -> str:
    """`worker 0` as a file name."""
    return name.replace(" ", "-")


def write_json(path: Path, data: Any, *, mode: int = PRIVATE) -> None:
    """Write JSON so that a reader sees either the old file or the whole new one."""
    write_whole(path, json.dumps(data, indent=1).encode(), mode=mode)
