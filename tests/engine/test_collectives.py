"""What collectives of torch.distributed move: the layers' bytes, within what the kernel counted."""

from __future__ import annotations

import socket
from collections import Counter
from pathlib import Path

import pytest

from engine.plan.plan import Plan
from engine.plan.units import cut
from engine.telemetry.batch import decode
from engine.telemetry.collectives import Collectives
from engine.telemetry.events import Direction
from engine.telemetry.recorder import TRANSPORT, Recorder
from tests.jobs import Run, job, succeed
from tests.traffic import links

STEPS = 10


def rounds(strategy: str) -> float:
    """How often half of the parameters' bytes goes each way between two workers, in all steps: a sum is given and got;
    FSDP gathers parameters in every step and after the last one, and sums (Gloo: everywhere). That it also gathers them
    when it is made is no step's, and no layer's."""
    return {"ddp": 2 * STEPS, "fsdp": 3 * STEPS + 1}[strategy]


def expected(run: Run, strategy: str) -> Counter[int]:
    """Bytes of each layer in each direction."""
    launch = run.launch
    sizes = {layer.index: layer.parameter_bytes for layer in launch.model.layers}
    if strategy != "native-allreduce":
        return Counter({index: int(size * rounds(strategy) / 2) for index, size in sizes.items()})
    assert isinstance(launch.plan, Plan)
    (unit,) = cut(launch.plan, launch.model)
    # It carries one number more for each of its parameters: whether it has a gradient.
    whole = 4 * (unit.count + len(unit.segments))
    elements = sum(sizes.values())
    return Counter({index: STEPS * (whole * size // elements) for index, size in sizes.items()})


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("strategy", ["ddp", "fsdp", "native-allreduce"])
def test_gradients_are_their_layers_bytes_and_the_rest_is_counted(strategy: str, tmp_path: Path) -> None:
    spec = job(strategy={"name": strategy}, cluster={"workers": 2}, training={"steps": STEPS})
    run = succeed(spec, tmp_path)
    found = links(run)
    assert set(found) == {(0, TRANSPORT), (1, TRANSPORT), (0, "lo")}
    assert all(one.said.by_size for one in found.values())
    for party in range(2):
        for direction in Direction:
            of_layers = found[party, TRANSPORT].layers[direction]
            assert of_layers == expected(run, strategy)
            counted = found[party, TRANSPORT].counted[direction]
            # Beyond them: the first values, which worker 0 hands out, DDP's own copy of these, checksums, headers.
            assert of_layers.total() < counted < of_layers.total() + 2.5 * run.launch.model.parameter_bytes
    assert found[0, "lo"].counted[Direction.TX] > sum(
        found[party, TRANSPORT].counted[Direction.TX] for party in range(2)
    ), "the kernel counts TCP's headers there"


def pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        first = socket.create_connection(listening.getsockname())
        return first, listening.accept()[0]


def pass_on(sender: socket.socket, receiver: socket.socket, size: int) -> None:
    sender.sendall(bytes(size))
    while size:
        size -= len(receiver.recv(size))


def test_layers_get_no_more_than_the_kernel_counted() -> None:
    recorder = Recorder(0, "worker 0", lambda: 0, None, flush_s=3600)
    inside, away = (Collectives(recorder, within_host=within) for within in (True, False))
    elsewhere = pair()
    with away.joining(connects_later=False), inside.joining(connects_later=False):
        ours = pair()
    pass_on(*elsewhere, 70_000)
    pass_on(*ours, 3_000)
    for one in (inside, away):
        one.begins()
    pass_on(*ours, 10_000)
    for one in (inside, away):  # 20,000 bytes would have gone each way
        one.moved({0: 3, 1: 1, 2: 0}, 20_000, rounds=2, workers=2, start=0)
    assert (inside.counted(), away.counted()) == ((13_000, 13_000), (0, 0))
    pass_on(*reversed(ours), 4_000)  # what the kernel had kept so far
    inside.settle()
    for end in (*ours, *elsewhere):
        end.close()
    assert inside.counted() == (17_000, 17_000), "what has ended still counts"
    recorder.close()
    bins = [row for body in recorder.memory for row in decode(body).table("bins")]
    assert {int(row["layer"]) for row in bins} == {0, 1}
    for direction in Direction:
        given = {
            layer: sum(int(r["bytes"]) for r in bins if r["layer"] == layer and r["direction"] == direction)
            for layer in (0, 1)
        }
        assert given == {0: 10_500, 1: 3_500}


def test_connections_that_come_with_the_first_collective_are_found() -> None:
    recorder = Recorder(0, "worker 0", lambda: 0, None, flush_s=3600)
    collectives = Collectives(recorder, within_host=True)
    with collectives.joining(connects_later=True):
        pass
    collectives.begins()
    ours = pair()
    pass_on(*ours, 1_000)
    assert collectives.counted() == (0, 0)
    collectives.moved({0: 1}, 500, rounds=2, workers=2, start=0)
    assert collectives.counted() == (1_000, 1_000)
    for end in ours:
        end.close()
    recorder.close()
