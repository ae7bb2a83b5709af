"""What a worker leaves behind that is killed within a push: in a real job, which it joins again."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from engine.plan.job import SourceSpec
from engine.plan.plan import Plan
from engine.plan.units import cut
from tests.engine.test_rejoin import SERVERS, check, ended, records, signalled, spec_of
from tests.engine.test_runtime_failures import USER_CODE, started, wait_until
from tests.equivalence.test_repeated import repeated
from tests.jobs import Run, distance


@pytest.mark.usefixtures("gang_lane")
def test_what_a_worker_leaves_behind_within_a_push_is_dropped_with_a_reason(tmp_path: Path) -> None:
    """By clock, worker 2 is ahead of worker 0, so its step 2 waits at the servers, and of its step 3 the last
    layer's part has left when it is killed. It joins again."""
    spec = spec_of(("bounded-staleness", {"bound": 2, "apply": "clock", "slice_size": 1200}), tmp_path)
    model = SourceSpec(entrypoint="ahead:build", directory=str(USER_CODE), options={"marks": str(tmp_path)})
    exact = replace(spec.training, precision="float64")
    with started(replace(spec, model=model, training=exact), tmp_path) as gang:
        signalled(gang, tmp_path)
        launch = gang._launch
        for shard_index in range(SERVERS):
            wait_until(launch.lost(launch.parties[2], shard_index).exists, "the loss is noticed")
        (tmp_path / "go").touch()
        end = ended(gang)
    check(launch, end, lives=2)
    rows = records(launch)
    first_life = rows[(rows["worker"] == 2) & (rows["incarnation"] == 0)]
    assert set(first_life["step"]) == {0, 1}
    run = Run(launch=launch, end=end)
    assert distance(run.state, repeated(run, rows)) <= 1e-12, "the record is enough to repeat it"
    assert isinstance(launch.plan, Plan)
    units = cut(launch.plan, launch.model)
    for party in launch.parties[3:]:
        here = [unit for unit in units if unit.shard == party.shard]
        said = Counter(
            (layer, int(step), reason)
            for layer, step, reason in re.findall(
                r"worker 2's contribution to (\S+) in step (\d+) was dropped: (.+)",
                launch.log(party).read_text(),
            )
        )
        held, missing = "worker 2 was lost", "it had not come, or not whole, when worker 2 was lost"
        by_layer = Counter(unit.layers[0] for unit in here)
        of_step_2 = {(layer, 2, held): count for layer, count in by_layer.items()}
        came = {layer: said[layer, 3, held] for layer in by_layer}
        of_step_3 = {(layer, 3, held): count for layer, count in came.items() if count}
        if of_step_3:
            of_step_3 |= {(layer, 3, missing): 1 for layer in by_layer if came[layer] < by_layer[layer]}
        assert said == of_step_2 | of_step_3
