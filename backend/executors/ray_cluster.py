"""A Ray cluster as the executor `ray` uses it: reserve nodes for a gang, start actors on them, ask these.

Ray is imported with the first use: a server with another executor does without it. Everything of ours is in one
namespace of Ray, and outlives the server: placement groups and actors are detached and have names.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from math import inf
from socket import create_connection
from threading import Lock, Thread
from typing import Any

from backend.executors.attempt_files import DRAINS_AT_ONCE
from backend.executors.base import LaunchError
from backend.executors.ray_gang import NAMESPACE, Spot
from backend.executors.ray_node import Node
from backend.executors.ray_verdict import Lost
from backend.lifecycle import Reason
from engine.errors import UserError

PLACE_S = 10.0
"""How long a gang may wait for its nodes. Our queue decides who is next, so nothing queues in Ray."""
REACH_S = 3.0
"""How long the head may take to accept a connection."""
LOOK_S = 5.0
"""How long what was seen of the head counts."""
SILENT_S = 10.0
"""How long the head may take to answer such a look."""
AGAIN_S = 10.0
"""How long nobody tries to connect where it has just failed."""
KEEPER_AT_ONCE = DRAINS_AT_ONCE + 4
"""Questions that a node's keeper answers at a time: those for files do not wait until spools are sent."""

logger = logging.getLogger(__name__)


class AwayError(RuntimeError):
    """Somebody does not answer now, and may later."""


class RayCluster:
    """One cluster. Any thread may use it."""

    def __init__(self, address: str | None, node: type[Node] = Node) -> None:
        """`address`: `HOST:PORT` of the cluster's head; None: of the cluster that this machine is a node of. `node`:
        the class of its actors. Raises UserError where Ray is not installed."""
        if find_spec("ray") is None:
            remedy = "Install trainyard[ray], or choose the executor local"
            raise UserError("executor", "ray", "Ray is not installed", remedy)
        self._address = address
        self._node = node
        self._called = f"the Ray cluster at {address}" if address else "the Ray cluster of this machine"
        self._lock = Lock()
        self._made: Any = None
        self._failed: tuple[float, str] | None = None
        """Of the last try to connect: when it failed, and why."""
        self._look = Lock()
        self._looks: float | None = None
        """Since when somebody looks whether the head is there."""
        self._looked = -inf
        """When somebody had looked."""
        self._trouble: str | None = f"this server is connecting to {self._called}"

    @property
    def ray(self) -> Any:
        """The library, connected. Raises AwayError where there is no cluster, for AGAIN_S without trying again, and
        where somebody else's try takes long."""
        if self._made is not None:
            return self._made
        if not self._lock.acquire(timeout=SILENT_S):
            raise AwayError(f"{self._called} has not answered for {SILENT_S:g} s")
        try:
            if self._made is None:
                if self._failed is not None and time.monotonic() < self._failed[0] + AGAIN_S:
                    raise AwayError(self._failed[1])
                try:
                    self._made = self._connect()
                except AwayError as error:
                    self._failed = time.monotonic(), str(error)
                    raise
            return self._made
        finally:
            self._lock.release()

    def outage(self) -> str | None:
        """Why nothing can be launched now, as far as is known; None: something can. Waits for nothing: what was seen
        counts for LOOK_S and as long as a look may take, and after that nothing is known."""
        with self._look:
            now = time.monotonic()
            if self._looks is None and now >= self._looked + LOOK_S:
                self._looks = now
                Thread(target=self._see, name="ray-look", daemon=True).start()
            silent = self._looks is not None and now > self._looks + SILENT_S
            if self._trouble is None and silent:
                return f"the head of {self._called} does not answer"
            if self._trouble is None and now > self._looked + LOOK_S + SILENT_S:
                return f"this server is looking whether {self._called} is still there"
            return self._trouble

    def _see(self) -> None:
        trouble = None
        try:
            if not self._nodes():
                trouble = f"{self._called} has no node"
        except Exception as error:  # AwayError, and many kinds of Ray's
            trouble = _line(error)
        with self._look:
            if trouble != self._trouble:
                logger.warning("%s", trouble or f"{self._called} is there")
            self._trouble, self._looks, self._looked = trouble, None, time.monotonic()

    def _connect(self) -> Any:
        import ray  # noqa: PLC0415 - an extra, which takes a second to load

        remedy = "Start Ray there (ray start), and give the address of the cluster's head (ray_address)"
        if self._address is not None:
            host, _, port = self._address.rpartition(":")
            try:
                create_connection((host.strip("[]"), int(port)), REACH_S).close()  # Ray would try for minutes
            except (OSError, ValueError) as error:
                raise AwayError(f"{self._called} does not answer: {error}. {remedy}") from error
        try:
            ray.init(
                address=self._address or "auto",
                namespace=NAMESPACE,
                log_to_driver=False,
                configure_logging=False,
                ignore_reinit_error=True,
                logging_level=logging.WARNING,
            )
        except Exception as error:  # Ray has many kinds of its own, and of libraries that it uses
            raise AwayError(
                f"{self._called} does not answer this machine: {_line(error)}. {remedy}"
            ) from error
        return ray

    def reserve(self, name: str, bundles: list[dict[str, float]], *, spread: bool) -> list[Spot]:
        """Room for all bundles, or none: raises LaunchError where the cluster has not enough within PLACE_S. `spread`:
        over as many nodes as there is room on; else on as few."""
        ray = self.ray
        strategy = "SPREAD" if spread else "PACK"
        group = ray.util.placement_group(bundles, strategy=strategy, name=name, lifetime="detached")
        if not group.wait(PLACE_S):
            ray.util.remove_placement_group(group)
            wanted = sum(bundle["CPU"] for bundle in bundles)
            free = ray.available_resources().get("CPU", 0.0)
            raise LaunchError(
                f"the Ray cluster has no room for the gang: it wants {len(bundles)} times {bundles[0]['CPU']:g} CPU,"
                f" {wanted:g} in all, and {free:g} are free after {PLACE_S:g} s. Add nodes, ask for fewer workers or"
                " threads, or start this server with fewer --cpu-devices than the cluster has CPUs"
            )
        where = ray.util.placement_group_table(group)["bundles_to_node_id"]
        addresses = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
        return [Spot(node=where[i], address=addresses[where[i]]) for i in range(len(bundles))]

    def start(self, group: str, bundle: int, name: str) -> Any:
        """The actor `name` in a bundle of the group."""
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy  # noqa: PLC0415

        strategy = PlacementGroupSchedulingStrategy(self.ray.util.get_placement_group(group), bundle)
        return self._actor(name, strategy)

    def keeper(self, address: str) -> Any:
        """The actor that answers for files on the node with this address. Raises AwayError where none has it."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

        node = next((n for n in self._nodes() if n["NodeManagerAddress"] == address), None)
        if node is None:
            raise AwayError("the Ray cluster has no node with this address now")
        strategy = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        return self._actor(f"files-{node['NodeID']}", strategy, max_concurrency=KEEPER_AT_ONCE)

    def _actor(self, name: str, strategy: Any, **options: Any) -> Any:
        made = self.ray.remote(self._node).options(
            name=name,
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            num_cpus=0,
            max_restarts=0,
            scheduling_strategy=strategy,
            **options,
        )
        return made.remote()

    def find(self, name: str) -> Any | None:
        """The actor of this name; None where it has ended."""
        try:
            return self.ray.get_actor(name, namespace=NAMESPACE)
        except ValueError:
            return None

    def ready(self, asked: Sequence[Any], timeout_s: float, *, least: int | None = None) -> set[Any]:
        """Those of the questions that have an answer, within the time, or once `least` (None: all) have one."""
        if not asked:
            return set()
        done, _ = self.ray.wait(list(asked), num_returns=least or len(asked), timeout=timeout_s)
        return set(done)

    def answer(self, asked: Any, timeout_s: float) -> Any:
        """The answer to a question; raises AwayError where none comes, and ActorDiedError of Ray's as it is."""
        errors = self.ray.exceptions
        try:
            return self.ray.get(asked, timeout=timeout_s)
        except (errors.GetTimeoutError, errors.ActorUnavailableError) as error:
            raise AwayError(_line(error)) from error
        except errors.RayTaskError as error:
            raise error.cause from error

    def lost(self, node: str, address: str) -> Lost:
        """Why the actor on a node has ended that nobody of ours has told to."""
        if any(one["NodeID"] == node for one in self._nodes()):
            reason = Reason.SUPERVISOR_LOST
            text = f"the actor on node {address} ended, and with it what it had started. {reason.remedy}"
            return Lost(reason=reason, message=text)
        reason = Reason.NODE_LOST
        text = f"node {address} was lost: Ray has not heard from it for too long. {reason.remedy}"
        return Lost(reason=reason, message=text)

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for node in self.ray.nodes() if node["Alive"]]

    def release(self, group: str, actors: Sequence[str]) -> None:
        """End the actors, and what they have started, and free what was reserved. Twice is harmless."""
        for name in actors:
            if (actor := self.find(name)) is not None:
                self.ray.kill(actor)
        with suppress(ValueError):  # it is gone
            self.ray.util.remove_placement_group(self.ray.util.get_placement_group(group))


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
