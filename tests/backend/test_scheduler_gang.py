"""Which devices a gang gets together: GPUs of one model, on one node or on several."""

from __future__ import annotations

from typing import Any

import pytest

from backend.scheduler.decide import Demand, Device, Inventory, Occupant, QueuedJob, State, decide
from backend.scheduler.instructions import Refuse, Start

MODELS = "AABB"
TWO, THREE, FOUR = "n1 n1", "n2 n2 n2", "n3 n3 n3 n3"
NODES = f"{THREE} {TWO} {FOUR}"
"""Of devices 0 to 2, 3 and 4, and 5 to 8."""


def models(models: str = MODELS) -> Inventory:
    """A machine with GPUs of these models."""
    return Inventory(
        devices=tuple(
            Device(id=f"cuda:{n}", kind="cuda", name="GPU", model=model) for n, model in enumerate(models)
        )
    )


def nodes(names: str = NODES, *, spans: bool) -> Inventory:
    """GPUs of one model on these nodes."""
    devices = (
        Device(id=f"cuda:{n}", kind="cuda", name="GPU", node=node) for n, node in enumerate(names.split())
    )
    return Inventory(devices=tuple(devices), spans=spans)


def placed(inventory: Inventory, workers: int, held: str = "", **asked: Any) -> str:
    """Numbers of the devices that the one job which waits gets, or what it is told."""
    demand = Demand(workers=workers, device="cuda", **asked)
    job = QueuedJob(id="job", name="job", demand=demand, priority=0, queued_unix_ns=0)
    occupied = {f"cuda:{n}": Occupant(job_id="other", job_name="other") for n in held}
    (told,) = decide(State(queued=(job,), inventory=inventory, occupied=occupied))
    if isinstance(told, Start):
        return "".join(device.id.removeprefix("cuda:") for device in told.devices)
    return str(told.error) if isinstance(told, Refuse) else told.text  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("workers", "held", "gets"),
    [(2, "", "01"), (2, "0", "23"), (1, "0", "1"), (2, "02", "of one model"), (3, "", "2 x A, 2 x B")],
)
def test_gpus_of_two_models_are_never_mixed_unseen(workers: int, held: str, gets: str) -> None:
    assert gets in placed(models(), workers, held)


def test_gpus_are_mixed_by_who_asks_for_it() -> None:
    assert placed(models(), 3, "0", mixed_gpus=True) == "123"
    assert "or cluster.mixed_gpus" in placed(models(), 3)


@pytest.mark.parametrize(
    ("workers", "held", "gets"),
    [
        (2, "", "34"),  # on the node with least left over
        (3, "", "012"),
        (3, "0", "567"),
        (4, "5", "on nodes that it may have together"),  # it waits for the one node that has four
    ],
)
@pytest.mark.parametrize("spans", [True, False])
def test_a_packed_gang_is_on_one_node_where_any_has_room_for_it(
    workers: int, held: str, gets: str, spans: bool
) -> None:
    assert gets in placed(nodes(spans=spans), workers, held)


def test_a_gang_is_on_several_nodes_only_where_the_executor_can_and_as_asked() -> None:
    assert "more workers than 4 CUDA devices of one node, of 9 in all" in placed(nodes(spans=False), 5)
    assert placed(nodes(spans=False), 3, nodes="spread") == "012", "of one machine all is as before"
    spanning = nodes(spans=True)
    assert placed(spanning, 6) == "567801", "on as few nodes as it takes"
    assert placed(spanning, 3, nodes="spread") == "503"
    assert placed(spanning, 5, nodes="spread", held="3456") == "07182"
