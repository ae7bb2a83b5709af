"""`trainyard race`: one command to a ranking, members with choices of their own, and a server that dies meanwhile."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from backend.cli.races import OWN
from backend.client import ENDED, Client
from engine.lab import permitted
from engine.strategies import STRATEGIES
from tests.backend.executor_attempts import until
from tests.backend.job_specs import job_spec
from tests.backend.live_server import LiveServer, run
from tests.backend.own_model import write_model
from tests.backend.test_cli_jobs import _server, file, succeeds, trainyard

__all__ = ["_server", "file"]
STEPS = 12
"""Some more than are left out as warm-up."""
RATES = ("100Mbit", "1Gbit")


def test_one_command_leads_from_ones_own_model_to_a_ranking(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    write_model(mine)
    spec = {
        "name": "my model",
        "model": {"entrypoint": "net:build", "directory": str(mine)},
        "data": {"entrypoint": "samples:load", "directory": str(mine)},
        "cluster": {"workers": 2},
        "training": {"steps": STEPS, "global_batch": 32},
        "evaluation": {"every_epochs": None, "at_end": False},
    }
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(spec))
    named = ("--strategies", "p3,parameter-server,ddp", "--rates", ",".join(RATES), "--rounds", "3")
    asked = ("race", str(path), *named)
    with LiveServer(tmp_path / "data", cpu_devices=2, warm_jobs=True) as server:
        told = run(*asked, url=server.url)
        assert told.returncode == 0, told.stderr
        race_id, *lines = told.stdout.splitlines()
        with Client(server.url) as client:
            race = client.standings(race_id)
    assert (race.state, race.jobs_ended, race.left_s) == ("finished", 12, None)
    assert lines[0] == "my model: finished, round 3, 12 of 12 jobs ended"
    for rate, ranking in zip(RATES, race.rankings, strict=True):
        assert f"{rate}: {ranking.sentence}" in lines
        placed = {standing.name: standing.rounds for standing in ranking.standings if standing.rank}
        assert placed == {"p3": 3, "parameter-server": 3}
    assert sum("ddp takes no part: " in line for line in lines) == len(RATES)
    assert "ddp takes no part" in told.stderr, "from the beginning"
    assert ("--lab lets them race here" in told.stderr) is (permitted() is None)
    far = r"^running, round \d, \d+ of 12 jobs ended, about \d+ (s|min) left$"
    assert re.search(far, told.stderr, re.MULTILINE), "nobody watches: lines say how far it is"


def test_a_race_whose_server_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    spec = job_spec("again", training={"steps": STEPS, "global_batch": 32})
    data = tmp_path / "data"
    with LiveServer(data, cpu_devices=2, warm_jobs=True) as server, Client(server.url) as client:
        members = [{"strategy": "p3"}, {"strategy": "parameter-server"}]
        race_id = client.start_race({"job": spec, "members": members, "rounds": 3}).id
        until(lambda: client.standings(race_id).round == 2, "the second round began")
        server.process.kill()
        server.process.wait()
    with LiveServer(data, cpu_devices=2, warm_jobs=True) as server, Client(server.url) as client:
        race = client.wait_for_race(race_id)
        jobs = list(client.jobs())
    assert (race.state, race.jobs, race.jobs_ended, race.jobs_failed) == ("finished", 6, 6, 0)
    (ranking,) = race.rankings
    assert [standing.rounds for standing in ranking.standings] == [3, 3]
    names = [f"again: {name}, round {number}" for number in (1, 2, 3) for name in ("p3", "parameter-server")]
    assert sorted(job.name for job in jobs) == sorted(names), "each of them once"
    assert {job.id for job in jobs} == {id_ for one in ranking.standings for id_ in one.job_ids}
    assert all(job.state in ENDED for job in jobs)


def test_a_member_has_options_a_name_and_overrides_of_its_own(file: Path) -> None:
    members = (
        "p3:slice_size=500,overrides.0.layers=fc*,overrides.0.codec=fp16,name=halved",
        "p3:overrides=[{kind: linear, codec: fp16}, {layers: fc1, activations: recompute}]",
        "p3:overrides=[]",
    )
    flags = [part for text in members for part in ("--member", text)]
    changed = ("--set", "overrides.0.codec=bf16")
    race = json.loads(
        succeeds("race", str(file), "--strategies", "p3", *flags, *changed, "--no-wait", "--json")
    )
    assert race["members"] == ["p3", "halved", "p3 (2 overrides)", "p3 (no overrides)"]
    plain, halved, two, none = race["spec"]["members"]
    assert (plain["overrides"], none["overrides"]) == (None, []), "the job's own, and none at all"
    assert halved["options"] == {"slice_size": 500}
    assert [(one["layers"], one["codec"]) for one in halved["overrides"]] == [("fc*", "fp16")]
    assert [(one["kind"], one["layers"]) for one in two["overrides"]] == [("linear", "*"), (None, "fc1")]
    more = succeeds("races", race["id"], "--add", "parameter-server:overrides.0.codec=fp16", "--json")
    assert json.loads(more)["spec"]["members"][-1]["overrides"][0]["codec"] == "fp16"
    succeeds("races", race["id"], "--cancel")


@pytest.mark.parametrize(
    ("member", "field", "words"),
    [
        (
            "p3:slice_size",
            "--member = 'p3:slice_size'",
            "'slice_size' is no option=value\n  remedy: Example: --member p3:slice_size=500",
        ),
        ("p3:overrides.1.codec=fp16", "--member", "overrides is empty\n  remedy: overrides.0 adds an entry"),
        ("p3:overrides.0.codec=fp17", "members.0.overrides.0.codec = 'fp17'", "fp16"),
        ("p3:overrides.0.layer=fc1", "members.0.overrides.0.layer", "layers"),
        ("p3:slice=1", "members.0.options.slice = 1", "slice_size"),
        ("p3:name=''", "members.0.name", "1 to 100 characters"),
    ],
)
def test_a_mistake_in_a_member_names_value_rule_and_remedy(
    file: Path, member: str, field: str, words: str
) -> None:
    refused = trainyard("race", str(file), "--member", member, "--no-wait")
    assert refused.exit_code == 2
    assert field in refused.stderr
    assert words in refused.stderr


def test_no_option_is_called_as_what_is_a_members_own() -> None:
    for strategy in STRATEGIES:
        assert not {option.name for option in fields(strategy.options)} & set(OWN), strategy.name
