"""What a handle of the executor `ray` says: an attempt's nodes, and by which names Ray knows what runs there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from backend.executors import files
from backend.executors.base import Handle
from engine.launch import Launch, write_json
from engine.plan.serde import from_plain

NAME = "ray"
NAMESPACE = "trainyard"
"""Of Ray's: everything of ours is in it."""
RECORD = "ray.json"
"""In the attempt's directory at the server: the handle's words and where it runs. Nothing else of the attempt is there
but who launched it, what it was asked to do, and how it ended."""
_HANDLE = ("directory", "namespace", "group", "place")


@dataclass(frozen=True, kw_only=True)
class Host:
    """One node of an attempt."""

    node: str
    """Ray's id of it."""
    address: str
    actor: str
    """Name of the actor that runs the attempt's parties there."""
    bundle: int
    """Of the placement group: the one that the actor is in."""


@dataclass(frozen=True, kw_only=True)
class Spot:
    """Where one bundle of a placement group is."""

    node: str
    """Ray's id of the node."""
    address: str


@dataclass(frozen=True, kw_only=True)
class RayGang:
    """An attempt on nodes of a cluster."""

    directory: str
    """At the server."""
    namespace: str
    group: str
    """Name of the placement group."""
    place: str
    """The attempt's folder on every node, below the node's own."""
    spots: tuple[Spot, ...] = ()
    """Of each worker, once there is room for all; this and what follows the handle does not say."""
    launched: bool = False
    """All its nodes have started their parties."""

    @classmethod
    def of(cls, handle: Handle) -> RayGang:
        """As far as it is known by now. Raises UserError for a handle of another executor, and for one that another
        version wrote."""
        handle.check_is_of(NAME)
        said = from_plain(cls, handle.data)
        return cls.read(Path(said.directory)) or said

    @classmethod
    def planned(cls, directory: Path) -> RayGang:
        """One that is about to be launched."""
        group, place = group_of(directory), place_of(directory)
        return cls(directory=str(directory), namespace=NAMESPACE, group=group, place=place)

    def on(self, spots: Sequence[Spot]) -> RayGang:
        """With room there."""
        return replace(self, spots=tuple(spots))

    @property
    def hosts(self) -> tuple[Host, ...]:
        """One for each address of the spots."""
        found: dict[str, Host] = {}
        for bundle, spot in enumerate(self.spots):
            actor = f"{self.group}-{len(found)}"
            host = Host(node=spot.node, address=spot.address, actor=actor, bundle=bundle)
            found.setdefault(spot.address, host)
        return tuple(found.values())

    @classmethod
    def read(cls, directory: Path) -> RayGang | None:
        """The one that the server wrote down; None where nothing was launched, or what is there cannot be read."""
        found = files.read(directory / RECORD)
        return None if found is None else from_plain(cls, found)

    def write(self) -> None:
        write_json(Path(self.directory) / RECORD, json.loads(json.dumps(asdict(self))))

    def handle(self) -> Handle:
        planned = asdict(self)
        return Handle(executor=NAME, data={name: planned[name] for name in _HANDLE})


def group_of(directory: Path) -> str:
    """Name of the placement group of an attempt, known before it is made."""
    return f"trainyard-{_short(directory)}"


def place_of(directory: Path) -> str:
    """The folder of the job, and of the attempt in it; two servers' do not meet."""
    return f"{directory.parent.name}/{directory.name}-{_short(directory)}"


def _short(directory: Path) -> str:
    return hashlib.sha256(str(directory).encode()).hexdigest()[:16]


def addresses_of(launch: Launch, spots: Sequence[Spot]) -> tuple[str, ...]:
    """Of each party: workers in the order of the spots, servers and devices beside them in turn. Empty where all live
    at one address."""
    if len({spot.address for spot in spots}) == 1:
        return ()
    return tuple(spots[party.index % len(spots)].address for party in launch.parties)
